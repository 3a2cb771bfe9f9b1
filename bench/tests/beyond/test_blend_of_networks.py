from naim3l_bench.beyond import blend_of_networks
from naim3l_bench.present import spread


def test_rivals_stand_beside_the_blend_of_their_dataset_only():
    values = {metric: spread([50.0, 52.0]) for metric in blend_of_networks.COLUMNS}
    (table,) = blend_of_networks.tables({"corel5k": {"blend": values}, "yeast": {"blend": values}})
    blend, *rivals, last = table.rows
    assert [cell.text for cell in blend[:3]] == ["corel5k", "blend", "51.00 (1.00)"]
    assert len(rivals) == 2 and all(row[0].text == "corel5k" for row in rivals)
    assert {cell.mark for row in rivals for cell in row[2:]} == {"published"}
    assert last[0].text == "yeast" and "2 seeds" in table.note
