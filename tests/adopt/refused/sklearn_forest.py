from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

x, y = load_iris(return_X_y=True)
print(RandomForestClassifier().fit(x, y).score(x, y))
