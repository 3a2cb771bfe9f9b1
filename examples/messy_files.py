"""Write three messy files about the same 600 patients, for docs/start/files.md.

They come from a clinic (commas, some empty cells, a text column), a laboratory (semicolons and
decimal commas, two thirds of the patients) and a survey (Parquet). Rows are in different orders,
and each table has three diagnoses: yes, no, or unknown. Of 150 patients who came later,
all diagnoses are known.
"""

import pandas as pd

from naim3l.datasets import make_patients

DIAGNOSES = ["flu", "asthma", "gout"]


def main() -> None:
    """Write clinic.csv, lab.txt, survey.parquet, clinic_new.csv and lab_new.txt."""
    data = make_patients(random_state=0)

    def table(of: str, views: str, labels: str) -> pd.DataFrame:
        words = data[labels][of][DIAGNOSES].replace({1: "yes", 0: "no"}).fillna("unknown")
        return data[views][of].join(words).reset_index()

    table("clinic", "views", "labels").to_csv("clinic.csv", index=False)
    table("lab", "views", "labels").to_csv("lab.txt", sep=";", decimal=",", index=False)
    table("survey", "views", "labels").to_parquet("survey.parquet", index=False)
    table("clinic", "new_views", "new_labels").to_csv("clinic_new.csv", index=False)
    lab = table("lab", "new_views", "new_labels")
    lab.to_csv("lab_new.txt", sep=";", decimal=",", index=False)


if __name__ == "__main__":
    main()
