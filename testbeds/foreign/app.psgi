# A Plack application for Starman: a process serves a request at a time, and asks memcached. Settings come by environment.
use strict;
use warnings;
use IO::Socket::INET;

open my $log, '>>', $ENV{LOG} or die;
my %status = ('/miss' => 404, '/fail' => 500);
my $cache;

sub {
    my $env = shift;
    my ($rid) = $env->{QUERY_STRING} =~ /rid=([^&]*)/;
    $cache ||= IO::Socket::INET->new("127.0.0.1:$ENV{MEMCACHED}");
    $cache->syswrite("get rid:$rid\r\n");
    $cache->sysread(my $got, 100);
    my $status = $status{$env->{PATH_INFO}} || 200;
    syswrite $log, "rid=$rid $status\n";
    return [$status, ['Content-Length' => length $rid], [$rid]];
};
