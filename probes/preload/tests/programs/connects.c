/* Connections that do not come about, and ways in which a program learns of it. Ports differ from run to run: they go
 * into a file whose name is the second argument. */
#include "common.h"
#include <stddef.h>

static FILE *told;

static void say(ssize_t result) { printf("%zd %s\n", result, strerror(errno)); }

/* A port on which nobody listens. */
static struct sockaddr_in nobody(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint16_t port;
	int l = listen_here(&port);
	close(l);
	a.sin_port = htons(port);
	fprintf(told, "%d\n", port);
	return a;
}

static int begun(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	check(fd >= 0 && connect(fd, (const void *)a, sizeof(*a)) == -1, "connect");
	check(errno == EINPROGRESS, "it is under way");
	return fd;
}

static void until_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	check(poll(&p, 1, 5000) == 1, "poll");
}

/* Waits for the answer. */
static void waiting(void)
{
	struct sockaddr_in a = nobody(), none = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	say(connect(fd, (void *)&a, sizeof(a)));
	none.sin_addr.s_addr = htonl(INADDR_BROADCAST);
	say(connect(fd, (void *)&none, sizeof(none)));
	close(fd);
	say(connect(fd, (void *)&a, sizeof(a)));
	say(connect(0x7fffffff, (void *)8, sizeof(a)));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	say(connect(fd, (void *)8, sizeof(a)));
}

static void waiting_6(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in b = nobody();
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	a.sin6_port = b.sin_port;
	if (fd < 0 || (connect(fd, (void *)&a, sizeof(a)), errno) != ECONNREFUSED)
		printf("no IPv6\n");
	close(fd);
}

static void by_path(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), l = socket(AF_UNIX, SOCK_STREAM, 0);
	say(connect(fd, (void *)&a, sizeof(a)));
	/* a name that nobody listens at */
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "wakepath-%d", getpid());
	a.sun_path[0] = 0;
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1 + n;
	check(!bind(l, (void *)&a, len), "bind");
	say(connect(fd, (void *)&a, len));
}

static void by_option(void)
{
	struct sockaddr_in a = nobody();
	int error = 0, fd = begun(&a);
	socklen_t len = sizeof(error);
	until_ready(fd);
	check(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), "getsockopt");
	printf("%s\n", strerror(error));
	check(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && !error, "it is told once");
	close(fd);
}

static void by_write(void)
{
	struct sockaddr_in a = nobody();
	int fd = begun(&a);
	until_ready(fd);
	say(write(fd, "x", 1));
	close(fd);
}

static void by_read(void)
{
	struct sockaddr_in a = nobody();
	char c;
	int fd = begun(&a);
	until_ready(fd);
	say(read(fd, &c, 1));
	close(fd);
}

static void by_another_call(void)
{
	struct sockaddr_in a = nobody();
	int fd = begun(&a);
	until_ready(fd);
	say(connect(fd, (void *)&a, sizeof(a)));
	close(fd);
}

/* Poll said that something is wrong, and that was enough. */
static void by_poll(void)
{
	struct sockaddr_in a = nobody();
	int fd = begun(&a);
	until_ready(fd);
	close(fd);
}

/* A listener that takes nobody any more: who wants to connect gets no answer. */
static struct sockaddr_in busy(int *l, int *first)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint16_t port;
	*l = listen_here(&port);
	check(!listen(*l, 0), "listen");
	*first = connect_to(port);
	a.sin_port = htons(port);
	fprintf(told, "%d\n", port);
	return a;
}

static void timed_out(void)
{
	int l, first, fd = socket(AF_INET, SOCK_STREAM, 0), ms = 100;
	struct sockaddr_in a = busy(&l, &first);
	check(!setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)), "setsockopt");
	say(connect(fd, (void *)&a, sizeof(a)));
}

static void given_up(void)
{
	int l, first;
	struct sockaddr_in a = busy(&l, &first);
	int fd = begun(&a);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	printf("%d ready\n", poll(&p, 1, 20));
	say(connect(fd, (void *)&a, sizeof(a)));
	close(fd);
}

/* Those that come about, for comparison. */
static void made(void)
{
	uint16_t port;
	struct sockaddr_in a = {.sin_family = AF_INET};
	int l = listen_here(&port), error = 1;
	socklen_t len = sizeof(error);
	fprintf(told, "%d\n", port);
	a.sin_port = htons(port); /* to 0.0.0.0: to this host */
	int fd = begun(&a);
	until_ready(fd);
	check(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && !error, "it is made");
	check(connect(fd, (void *)&a, sizeof(a)) == 0 || errno == EISCONN, "asked again");
	check(accept(l, NULL, NULL) >= 0, "accept");
	write_all(fd, "x", 1);
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct part all[] = {{"waiting", waiting},   {"waiting_6", waiting_6}, {"by_path", by_path},	{"by_option", by_option},
		   {"by_write", by_write}, {"by_read", by_read},     {"by_another_call", by_another_call},
		   {"by_poll", by_poll},   {"timed_out", timed_out}, {"given_up", given_up},	{"made", made}};
	begin(30);
	if (argc < 3 || !(told = fopen(argv[2], "w")))
		return 3;
	int played = play(argc, argv, all, sizeof(all) / sizeof(*all));
	return fclose(told) ? 1 : played;
}
