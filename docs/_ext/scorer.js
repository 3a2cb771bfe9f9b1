// Pages that answer a question come before the reference, and these before tables of results.
const ROOMS = { start: 20, guide: 20, gallery: 10, research: 0, develop: -5, api: -10 };

var Scorer = {  // declared anew by the script of the search
  score: ([page, title, anchor, description, score]) => score + (ROOMS[page.split("/")[0]] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
