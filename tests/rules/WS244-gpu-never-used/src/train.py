import pandas as pd
from sklearn.ensemble import RandomForestClassifier

frame = pd.read_csv("rows.csv")
forest = RandomForestClassifier(500).fit(frame.drop(columns=["fraud"]), frame["fraud"])
print(forest.score(frame.drop(columns=["fraud"]), frame["fraud"]))
