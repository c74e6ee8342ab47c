%% Cowboy, a process for each connection and each request: one process that owns the connection to Redis, and httpc's kept ones.
-module(web).
-export([main/0, init/2]).

env(Name) -> os:getenv(Name).

main() ->
    {ok, _} = application:ensure_all_started(cowboy),
    {ok, _} = application:ensure_all_started(inets),
    ok = httpc:set_options([{max_sessions, 20}, {max_keep_alive_length, 0}]),
    {ok, Log} = file:open(env("LOG"), [append]),
    Cache = spawn(fun() ->
        {ok, Redis} = gen_tcp:connect("127.0.0.1", list_to_integer(env("REDIS")), [binary, {active, false}, {packet, line}, {nodelay, true}]),
        cache(Redis)
    end),
    Routes = cowboy_router:compile([{'_', [{"/[...]", ?MODULE, {Cache, Log}}]}]),
    {ok, _} = cowboy:start_clear(web, #{socket_opts => [{ip, {127, 0, 0, 1}}, {port, list_to_integer(env("PORT"))}]},
        #{env => #{dispatch => Routes}, max_keepalive => infinity}),
    receive stop -> ok end.

%% One command after the other, whoever asks.
cache(Redis) ->
    receive
        {ask, From, Rid} ->
            ok = gen_tcp:send(Redis, ["INCR rid:", Rid, "\r\n"]),
            {ok, _} = gen_tcp:recv(Redis, 0),
            From ! {cached, Rid},
            cache(Redis)
    end.

init(Request, {Cache, Log} = State) ->
    #{rid := Rid} = cowboy_req:match_qs([rid], Request),
    Status = case cowboy_req:path(Request) of <<"/miss">> -> 404; <<"/fail">> -> 500; _ -> 200 end,
    Cache ! {ask, self(), Rid},
    receive {cached, Rid} -> ok end,
    case Status of
        200 -> {ok, _} = httpc:request("http://127.0.0.1:" ++ env("DOWN") ++ "/down?rid=" ++ binary_to_list(Rid));
        _ -> ok
    end,
    ok = file:write(Log, ["rid=", Rid, " ", integer_to_list(Status), "\n"]),
    {ok, cowboy_req:reply(Status, #{<<"content-type">> => <<"text/plain">>}, Rid, Request), State}.
