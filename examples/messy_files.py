"""Write three messy files about the same 600 patients, for docs/start/files.md.

They come from a clinic (commas, some empty cells, a text column), a laboratory (semicolons and
decimal commas, half of the patients) and a survey (Parquet). Rows are in different orders, and
each table has three diagnoses: yes, no, or unknown. The last 150 patients of the clinic are written
to a separate file, as if they came later.
"""

import numpy as np
import pandas as pd

DIAGNOSES = ["flu", "asthma", "gout"]


def main() -> None:
    """Write clinic.csv, clinic_new.csv, lab.txt and survey.parquet into the current folder."""
    rng = np.random.default_rng(0)
    n_patients = 600
    health = rng.normal(size=(n_patients, 4))  # hidden factors that all three tables depend on
    ill = health @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(n_patients, 3)) > 0.7
    ids = [f"P{i:04d}" for i in range(n_patients)]

    def measurements(names: list[str]) -> pd.DataFrame:
        seen = health @ rng.normal(size=(4, len(names)))
        table = pd.DataFrame(seen + 0.7 * rng.normal(size=seen.shape), columns=names)
        return table.round(3)

    def with_ids_and_diagnoses(table: pd.DataFrame, unknown: float) -> pd.DataFrame:
        words = np.where(ill, "yes", "no").astype(object)
        words[rng.random(words.shape) < unknown] = "unknown"
        table.insert(0, "patient_id", ids)
        table[DIAGNOSES] = words
        return table.sample(frac=1, random_state=rng.integers(2**31))

    clinic = measurements(["age", "pressure", "bmi", "pulse", "temperature"])
    clinic.loc[rng.random(n_patients) < 0.1, "bmi"] = np.nan
    clinic["ward"] = rng.choice(["north", "south", "emergency"], n_patients)
    clinic = with_ids_and_diagnoses(clinic, unknown=0.4)
    clinic[:450].to_csv("clinic.csv", index=False)
    clinic[450:].to_csv("clinic_new.csv", index=False)

    lab = with_ids_and_diagnoses(measurements(["hb", "crp", "na", "k", "alt", "ast"]), unknown=0.5)
    lab[:300].to_csv("lab.txt", sep=";", decimal=",", index=False)

    survey = with_ids_and_diagnoses(measurements(["sleep", "pain", "mood", "sport"]), unknown=0.6)
    survey[:420].to_parquet("survey.parquet", index=False)


if __name__ == "__main__":
    main()
