# Each thread has a connection to PostgreSQL, waits for it, and computes in Ruby, which runs one thread of a process at a time.
require "pg"

run lambda { |_env|
  connection = (Thread.current[:pg] ||= PG.connect(ENV["PG"]))
  connection.exec("SELECT pg_sleep(0.010)")
  sum = 0
  40_000.times { |i| sum += i }
  [200, { "content-type" => "text/plain" }, ["#{sum}\n"]]
}
