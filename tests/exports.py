"""Reads what `wakepath export` wrote with the classes and tools of those who made the forms, and prints as JSON what is in it.

usage: exports.py FOLDER   (with otlp.jsonl, otlp.pb, jaeger.json, perfetto.pftrace, prometheus.txt, flame.folded, flame.pb.gz)
"""

import base64
import collections
import json
import os
import subprocess
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from prometheus_client.openmetrics import parser

IDS = ("traceId", "spanId", "parentSpanId")


def as_base64(value):
    """OTLP's JSON has ids in hexadecimal digits, where the classes expect base64."""
    if isinstance(value, dict):
        return {
            k: base64.b64encode(bytes.fromhex(v)).decode() if k in IDS else as_base64(v) for k, v in value.items()
        }
    return [as_base64(v) for v in value] if isinstance(value, list) else value


def otlp(folder):
    """Both forms have to be the same; the spans, by trace."""
    whole = trace_pb2.TracesData()
    with open(f"{folder}/otlp.jsonl", encoding="utf-8") as lines:
        for line in lines:
            one = json_format.ParseDict(as_base64(json.loads(line)), trace_service_pb2.ExportTraceServiceRequest())
            whole.MergeFromString(one.SerializeToString())
    binary = trace_pb2.TracesData()
    with open(f"{folder}/otlp.pb", "rb") as file:
        binary.ParseFromString(file.read())
    assert whole == binary, "the two forms differ"
    spans, links = [], 0
    for of_service in binary.resource_spans:
        about = {a.key: a.value.string_value for a in of_service.resource.attributes}
        for scope in of_service.scope_spans:
            for s in scope.spans:
                assert len(s.trace_id) == 16 and any(s.trace_id) and len(s.span_id) == 8 and any(s.span_id)
                assert s.start_time_unix_nano <= s.end_time_unix_nano
                links += len(s.links)
                spans.append({
                    "trace": s.trace_id.hex(),
                    "span": s.span_id.hex(),
                    "parent": s.parent_span_id.hex(),
                    "name": s.name,
                    "kind": s.kind,
                    "service": about["service.name"],
                    "start_ns": s.start_time_unix_nano,
                    "duration_ns": s.end_time_unix_nano - s.start_time_unix_nano,
                    "waits": sum(e.name == "wait" for e in s.events),
                    "critical_ns": sum(
                        a.value.int_value for a in s.attributes if a.key.startswith("wakepath.critical_path.")
                    ),
                })
    ids = [(s["trace"], s["span"]) for s in spans]
    assert len(set(ids)) == len(ids), "two spans of a trace have one id"
    parents = {(s["trace"], s["parent"]) for s in spans if s["parent"]}
    assert parents <= set(ids), "a parent is missing"
    return {"spans": spans, "links": links}


def jaeger(folder):
    """The same spans, as Jaeger's page takes them."""
    with open(f"{folder}/jaeger.json", encoding="utf-8") as file:
        traces = json.load(file)["data"]
    spans = []
    for trace in traces:
        for s in trace["spans"]:
            parents = [r["spanID"] for r in s["references"] if r["refType"] == "CHILD_OF"]
            tags = {t["key"]: t["value"] for t in s["tags"]}
            spans.append({
                "trace": trace["traceID"],
                "span": s["spanID"],
                "parent": parents[0] if parents else "",
                "name": s["operationName"],
                "service": trace["processes"][s["processID"]]["serviceName"],
                "start_ns": tags["wakepath.start_ns"],
                "duration_ns": tags["wakepath.duration_ns"],
            })
            assert s["startTime"] == tags["wakepath.start_ns"] // 1000
    return spans


def perfetto(folder):
    """Counts of slices and arrows; each slice ends, each arrow begins and ends once, each track is announced."""
    trace = perfetto_trace_pb2.Trace()
    with open(f"{folder}/perfetto.pftrace", "rb") as file:
        trace.ParseFromString(file.read())
    kinds = perfetto_trace_pb2.TrackEvent.Type
    tracks, depth, begun, ended = {}, collections.Counter(), collections.Counter(), collections.Counter()
    slices, counters = collections.Counter(), 0
    for p in trace.packet:
        assert p.trusted_packet_sequence_id
        if p.HasField("track_descriptor"):
            tracks[p.track_descriptor.uuid] = p.track_descriptor
    for p in trace.packet:
        if not p.HasField("track_event"):
            continue
        e = p.track_event
        assert e.track_uuid in tracks and p.timestamp
        begun.update(e.flow_ids)
        ended.update(e.terminating_flow_ids)
        if e.type == kinds.TYPE_SLICE_BEGIN:
            parent = tracks.get(tracks[e.track_uuid].parent_uuid)
            slices["span" if parent is not None and parent.name == "Requests" else "interval"] += 1
            depth[e.track_uuid] += 1
        elif e.type == kinds.TYPE_SLICE_END:
            depth[e.track_uuid] -= 1
        counters += e.type == kinds.TYPE_COUNTER
    assert not any(depth.values()), "a slice has no end"
    assert begun == ended and set(begun.values()) <= {1}, "an arrow has one end"
    for track in tracks.values():
        assert not track.parent_uuid or track.parent_uuid in tracks
    return {"slices": slices, "arrows": len(begun), "counters": counters}


def prometheus(folder):
    """Requests by outcome, and exemplars."""
    with open(f"{folder}/prometheus.txt", encoding="utf-8") as file:
        families = {f.name: f for f in parser.text_string_to_metric_families(file.read())}
    requests = sum(s.value for s in families["wakepath_entry_requests"].samples)
    durations = families["wakepath_entry_request_duration_seconds"].samples
    return {
        "requests": requests,
        "kinds": sorted({s.labels["kind"] for s in durations}),
        "answered": sum(s.value for s in durations if s.name.endswith("_count")),
        "seconds": sum(s.value for s in durations if s.name.endswith("_sum")),
        "exemplars": [s.exemplar.labels["trace_id"] for s in durations if s.exemplar],
    }


def flame(folder):
    """Nanoseconds by stack, as flame graph tools read them, and all of them as pprof does."""
    stacks = {}
    with open(f"{folder}/flame.folded", encoding="utf-8") as lines:
        for line in lines:
            stack, ns = line.rstrip("\n").rsplit(" ", 1)
            assert stack not in stacks
            stacks[stack] = int(ns)
    go = os.path.join(os.path.dirname(sys.executable), "go")
    raw = subprocess.run(
        [go, "tool", "pprof", "-raw", f"{folder}/flame.pb.gz"], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    samples = raw.split("Samples:\n")[1].split("Locations\n")[0].splitlines()[1:]
    return {"folded": stacks, "pprof_samples": len(samples), "pprof_ns": sum(int(s.split(":")[0].split()[1]) for s in samples)}


def main(folder):
    forms = {"otlp": otlp, "jaeger": jaeger, "perfetto": perfetto, "prometheus": prometheus, "flame": flame}
    print(json.dumps({name: read(folder) for name, read in forms.items()}))


main(sys.argv[1])
