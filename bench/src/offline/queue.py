"""The queue of constant.toml in SimPy 3: start-time fair queueing before one server.

    clients of four tenants -> at most 8 past the gate, by start tag -> one server

A request's tag is the greater of the virtual time and where its tenant's last one ended; that one
ends its cost by weight later. The virtual time is the tag of the last request past the gate.

Argument: the virtual time to simulate, in nanoseconds. Prints JSON.
"""

import json
import sys

import simpy

WEIGHTS = [1, 2, 3, 4]
CLIENTS = 16
DEPTH = 8
SIZE_BYTES = 4096
RATE_BYTES = 4_000_000_000
SERVICE_NS = 1_000 + SIZE_BYTES * 1_000_000_000 // RATE_BYTES

# Divisible by every weight, so that tags stay whole numbers.
WEIGHT_UNIT = 12


class Queue:
    def __init__(self):
        self.environment = simpy.Environment()
        self.gate = simpy.PriorityResource(self.environment, capacity=DEPTH)
        self.server = simpy.Resource(self.environment, capacity=1)
        self.virtual_time = 0
        self.ends = [0] * len(WEIGHTS)
        self.served = [0] * len(WEIGHTS)
        self.latency_ns = [0] * len(WEIGHTS)

    def client(self, tenant):
        while True:
            arrival_ns = self.environment.now
            start = max(self.virtual_time, self.ends[tenant])
            self.ends[tenant] = start + SERVICE_NS * WEIGHT_UNIT // WEIGHTS[tenant]
            with self.gate.request(priority=start) as passed:
                yield passed
                self.virtual_time = start
                with self.server.request() as begun:
                    yield begun
                    yield self.environment.timeout(SERVICE_NS)
            self.served[tenant] += 1
            self.latency_ns[tenant] += self.environment.now - arrival_ns

    def run(self, length_ns):
        for tenant in range(len(WEIGHTS)):
            for _ in range(CLIENTS):
                self.environment.process(self.client(tenant))
        self.environment.run(until=length_ns)


def main():
    queue = Queue()
    queue.run(int(sys.argv[1]))
    requests = sum(queue.served)
    print(json.dumps({
        "requests": requests,
        "delivered": [served / requests for served in queue.served],
        "latency_mean_ns": [sum_ns / max(served, 1)
                            for sum_ns, served in zip(queue.latency_ns, queue.served)],
    }))


main()
