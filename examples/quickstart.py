"""A program as an agent would write it: it runs in the embedded tier, without files, network or functions."""

from collections import Counter
from dataclasses import dataclass


@dataclass
class Order:
    customer: str
    amount: float


orders = [
    Order("ada", 12.5),
    Order("grace", 40.0),
    Order("ada", 7.25),
    Order("alan", 3.0),
]

spent = Counter()
for order in orders:
    spent[order.customer] += order.amount

for customer, amount in spent.most_common():
    print(f"{customer:>8} {amount:8.2f}")

try:
    open("/etc/passwd")
except OSError as error:
    print("no file of the host's:", type(error).__name__)

{"customers": len(spent), "total": sum(spent.values())}
