"""A collector of OpenTelemetry's own classes, over gRPC, for tests of `wakepath export`.

usage: collector.py CODE... | collector.py all

Prints its address; with `all`, takes everything until standard input ends, and then prints each span as JSON. Else gives each call the next of these statuses of gRPC (0 takes what was sent, all but 7 spans), and at the end,
as JSON, how many spans each call had, how many of all have a parent that was sent too, and whether all calls were the same.
"""

import json
import sys
import threading
from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

REJECTED = 7


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, codes):
        self.codes, self.calls, self.done = codes, [], threading.Event()

    def Export(self, request, context):
        self.calls.append(request)
        if not self.codes:
            return trace_service_pb2.ExportTraceServiceResponse()
        code = self.codes[len(self.calls) - 1]
        if len(self.calls) == len(self.codes):
            self.done.set()
        if code:
            context.abort(next(c for c in grpc.StatusCode if c.value[0] == code), "not now: 100 % busy")
        answer = trace_service_pb2.ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = REJECTED
        return answer


def spans(request):
    return [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]


def told(request):
    """The spans of a call: trace, span, parent, service, name, begin and end."""
    for r in request.resource_spans:
        service = next(a.value.string_value for a in r.resource.attributes if a.key == "service.name")
        for s in (s for scope in r.scope_spans for s in scope.spans):
            yield [s.trace_id.hex(), s.span_id.hex(), s.parent_span_id.hex(), service, s.name, s.start_time_unix_nano, s.end_time_unix_nano]


def main(codes):
    collector = Collector(codes)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    print(f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    server.start()
    if not codes:
        sys.stdin.read()
        server.stop(5).wait()
        print(json.dumps([span for call in collector.calls for span in told(call)]))
        return
    if not collector.done.wait(60):
        sys.exit("too few calls came")
    # the last call is answered before
    server.stop(5).wait()
    of_last = spans(collector.calls[-1])
    ids = {(s.trace_id, s.span_id) for s in of_last}
    print(json.dumps({
        "spans": [len(spans(c)) for c in collector.calls],
        "parents": sum((s.trace_id, s.parent_span_id) in ids for s in of_last if s.parent_span_id),
        "same": all(c == collector.calls[0] for c in collector.calls),
    }))


main([] if sys.argv[1:] == ["all"] else [int(code) for code in sys.argv[1:]])
