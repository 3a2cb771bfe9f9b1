"""Terms of the objective: the paper's model, its two variants, and the model with a ridge."""

VARIANTS = {
    "full": {},
    "variant II": {"high_rank": False},
    "variant I": {"low_rank": False, "high_rank": False},
    "ridge": {"ridge": 0.5},
}
