-- Loads the files beside it. Loading them twice doubles the rows. A table that lacks a column of theirs is an error.

INSERT INTO otel_traces FROM INFILE 'otel_traces.jsonl.zst' COMPRESSION 'zstd'
SETTINGS date_time_input_format = 'best_effort', input_format_skip_unknown_fields = 0
FORMAT JSONEachRow;

INSERT INTO wakepath_requests FROM INFILE 'wakepath_requests.jsonl.zst' COMPRESSION 'zstd'
SETTINGS date_time_input_format = 'best_effort', input_format_skip_unknown_fields = 0
FORMAT JSONEachRow;
