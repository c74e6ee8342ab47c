%% An echo server: a process for each connection. Started by `erl -s echo main PORT`.
-module(echo).
-export([main/1]).

main([Port]) ->
    {ok, Listener} = gen_tcp:listen(list_to_integer(atom_to_list(Port)),
                                    [binary, {active, false}, {reuseaddr, true}, {nodelay, true}]),
    io:format("ready ~p~n", [Port]),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> receive go -> serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listener).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} ->
            ok = gen_tcp:send(Socket, Bytes),
            serve(Socket);
        {error, closed} ->
            ok
    end.
