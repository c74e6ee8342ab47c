/* What the test programs share. They print what a user of the program would see: it must be the same with and without
 * the library. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUEST "GET /item HTTP/1.1\r\nHost: a\r\n\r\n"
#define REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void check(int ok, const char *what)
{
	if (!ok) {
		printf("FAILED %s: %s\n", what, strerror(errno));
		fflush(stdout);
		_exit(1);
	}
}

static inline int listen_here(uint16_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	check(fd >= 0 && !bind(fd, (void *)&a, len) && !listen(fd, 128) && !getsockname(fd, (void *)&a, &len), "listen");
	*port = ntohs(a.sin_port);
	return fd;
}

static inline int connect_to(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	check(fd >= 0 && !connect(fd, (void *)&a, sizeof(a)), "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t r = write(fd, p, n);
		check(r > 0, "write");
		p += r;
		n -= r;
	}
}

static int replies(const char *p, size_t n)
{
	int count = 0;
	for (size_t i = 0; i + 4 <= n; i++)
		count += !memcmp(p + i, "\r\n\r\n", 4);
	return count;
}

/* A client of its own process: `n` requests in one segment; its end is 0 where `n` replies came within five seconds. */
static inline pid_t client(uint16_t port, int n)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	char all[8192] = "", in[8192];
	size_t have = 0;
	for (int i = 0; i < n; i++)
		strcat(all, REQUEST);
	int fd = connect_to(port);
	usleep(50000); /* so that the server waits */
	write_all(fd, all, strlen(all));
	alarm(25);
	while (replies(in, have) < n) {
		ssize_t r = read(fd, in + have, sizeof(in) - have);
		if (r <= 0)
			_exit(2);
		have += r;
	}
	_exit(0);
}

static inline void reap(int n)
{
	int bad = 0, status;
	for (int i = 0; i < n; i++) {
		check(wait(&status) > 0, "wait");
		bad += status != 0;
	}
	printf("%d children, %d of them failed\n", n, bad);
}

static inline void nonblocking(int fd)
{
	check(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "fcntl");
}

static inline void add(int ep, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = {.events = events, .data.u64 = data};
	check(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), "epoll_ctl");
}

/* Answers the requests in a buffer that has no partial one; how many. */
static inline int answer(int fd, const char *p, size_t n)
{
	int count = replies(p, n);
	for (int i = 0; i < count; i++)
		write_all(fd, REPLY, strlen(REPLY));
	return count;
}

/* One of the parts that a program can play. */
struct part {
	const char *name;
	void (*run)(void);
};

/* Each line is told at once, and nothing lasts longer than so many seconds. */
static inline void begin(unsigned seconds)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	alarm(seconds);
}

/* Plays the part that the first argument names; 3 where there is none such. */
static inline int play(int argc, char **argv, const struct part *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (argc > 1 && !strcmp(argv[1], all[i].name)) {
			all[i].run();
			return 0;
		}
	return 3;
}
