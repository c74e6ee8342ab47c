# A Rack application for Puma: each thread keeps its own connections. Settings come by environment.
require "net/http"
require "pg"
require "redis"

LOG = File.open(ENV["LOG"], "a").tap { |f| f.sync = true }

def own
  Thread.current[:own] ||= {
    redis: Redis.new(host: "127.0.0.1", port: ENV["REDIS"].to_i),
    pg: PG.connect(host: "127.0.0.1", port: ENV["PG"].to_i, user: "postgres", dbname: "postgres", sslmode: "disable", gssencmode: "disable"),
    http: Net::HTTP.start("127.0.0.1", ENV["DOWN"].to_i)
  }
end

run lambda { |env|
  rid = env["QUERY_STRING"][/rid=([^&]*)/, 1]
  status = { "/miss" => 404, "/fail" => 500 }.fetch(env["PATH_INFO"], 200)
  own[:redis].incr("rid:#{rid}")
  if status == 200
    own[:pg].exec("/* rid=#{rid} */ SELECT pg_sleep(0.001)")
    own[:http].get("/down?rid=#{rid}")
  end
  LOG.write("rid=#{rid} #{status}\n")
  [status, { "content-type" => "text/plain" }, ["#{rid}\n"]]
}
