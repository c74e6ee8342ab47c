# A Rack application that asks memcached, for servers of processes and of an event loop. Settings come by environment.
require "socket"

LOG = File.open(ENV["LOG"], "a").tap { |f| f.sync = true }

run lambda { |env|
  rid = env["QUERY_STRING"][/rid=([^&]*)/, 1]
  status = { "/miss" => 404, "/fail" => 500 }.fetch(env["PATH_INFO"], 200)
  $cache ||= TCPSocket.new("127.0.0.1", ENV["MEMCACHED"].to_i)
  $cache.write("get rid:#{rid}\r\n")
  $cache.readpartial(100)
  LOG.write("rid=#{rid} #{status}\n")
  [status, { "Content-Type" => "text/plain", "Content-Length" => rid.size.to_s }, [rid]]
}
