# A service on async-http: each request is a task on a fiber of its own, all in one thread. Settings come by environment.
require "async"
require "async/http/client"
require "async/http/endpoint"
require "async/http/server"
require "async/io/host_endpoint"
require "protocol/http/response"

LOG = File.open(ENV["LOG"], "a").tap { |f| f.sync = true }
IDLE = []

def increment(rid)
  connection = IDLE.pop || Async::IO::Endpoint.tcp("127.0.0.1", ENV["REDIS"].to_i).connect
  connection.write("*2\r\n$4\r\nINCR\r\n$#{rid.size + 4}\r\nrid:#{rid}\r\n")
  connection.readpartial(64)
  IDLE.push(connection)
end

Async do
  down = Async::HTTP::Client.new(Async::HTTP::Endpoint.parse("http://127.0.0.1:#{ENV["DOWN"]}"), retries: 0)
  here = Async::HTTP::Endpoint.parse("http://127.0.0.1:#{ENV["PORT"]}")
  server = Async::HTTP::Server.for(here) do |request|
    rid = request.path[/rid=([^&]*)/, 1]
    increment(rid)
    Async::Task.current.sleep(0.001)
    down.get("/down?rid=#{rid}").read
    LOG.write("rid=#{rid} 200\n")
    Protocol::HTTP::Response[200, [["content-type", "text/plain"]], ["#{rid}\n"]]
  end
  server.run
end
