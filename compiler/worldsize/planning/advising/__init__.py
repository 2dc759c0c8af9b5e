"""Which cluster and which layout of a training are fastest and cheapest, with its global batch kept.

``model`` holds the question and the answer, ``layouts`` the fastest division of one training over one
cluster, ``options`` its time and money and which of them are best, and ``search`` the clusters that may be
rented, and the whole.
Times are seconds, sizes bytes, money is in the currency of the prices.
"""
