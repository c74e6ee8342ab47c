# Mojolicious, prefork with an event loop a process: PostgreSQL and a service behind, both without blocking, at once.
use Mojolicious::Lite -signatures;
use Mojo::Pg;
use Mojo::Promise;

my $pg = Mojo::Pg->new("postgresql://postgres\@127.0.0.1:$ENV{PG}/postgres?sslmode=disable&gssencmode=disable")->max_connections(4);
open my $log, '>>', $ENV{LOG} or die;
$log->autoflush(1);
my %status = (miss => 404, fail => 500);
app->log->level('fatal');

get '/:kind' => sub ($c) {
    my $rid    = $c->param('rid');
    my $status = $status{ $c->param('kind') } // 200;
    $c->render_later;
    my @work = ($pg->db->query_p("/* rid=$rid */ SELECT pg_sleep(0.001)"));
    push @work, $c->ua->get_p("http://127.0.0.1:$ENV{DOWN}/down?rid=$rid") if $status == 200;
    Mojo::Promise->all(@work)->then(sub {
        print $log "rid=$rid $status\n";
        $c->render(text => $rid, status => $status);
    });
};
app->start;
