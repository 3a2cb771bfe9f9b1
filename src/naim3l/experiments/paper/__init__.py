"""Tables and figures of the paper, an item each; `naim3l.experiments.items` names them."""
