"""Tables and figures of the paper, an item each; `naim3l_bench.items` names them."""
