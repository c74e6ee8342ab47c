/* How long calls take: ns a call, one line each. */
#include "common.h"

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

#define LEAST(name, n, call)                                                                                           \
	do {                                                                                                           \
		uint64_t best = ~0ull;                                                                                 \
		for (int round = 0; round < 15; round++) {                                                             \
			uint64_t begin = now();                                                                        \
			for (int i = 0; i < (n); i++)                                                                  \
				call;                                                                                  \
			uint64_t took = (now() - begin) / (n);                                                         \
			best = took < best ? took : best;                                                              \
		}                                                                                                      \
		printf("%s %llu\n", name, (unsigned long long)best);                                                   \
	} while (0)

int main(int argc, char **argv)
{
	int pair[2], file = open("/dev/zero", O_RDONLY), ep = epoll_create1(0);
	char in[4096];
	struct epoll_event e[16];
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	add(ep, pair[0], EPOLLOUT, 1);
	struct pollfd p = {.fd = pair[0], .events = POLLOUT};
	LEAST("read-file", 2000, read(file, in, 1));
	LEAST("write+read-unix", 1000, (write(pair[1], in, 100), read(pair[0], in, 4096)));
	LEAST("poll", 2000, poll(&p, 1, 0));
	LEAST("epoll_wait", 2000, epoll_wait(ep, e, 16, 0));
	uint16_t port;
	int l = listen_here(&port);
	pid_t child = fork();
	if (!child) {
		/* a client of another process: each request is answered before the next */
		int c = connect_to(port);
		for (int i = 0; i < 15 * 500; i++) {
			write_all(c, REQUEST, strlen(REQUEST));
			for (size_t have = 0; have < strlen(REPLY);) {
				ssize_t r = read(c, in, sizeof(in));
				if (r <= 0)
					_exit(1);
				have += r;
			}
		}
		_exit(0);
	}
	int c = accept(l, NULL, NULL);
	add(ep, c, EPOLLIN, 2);
	check(!epoll_ctl(ep, EPOLL_CTL_DEL, pair[0], NULL), "epoll_ctl");
	LEAST("http-exchange", 500, (epoll_wait(ep, e, 16, -1), answer(c, in, read(c, in, sizeof(in)))));
	kill(child, SIGKILL);
	wait(NULL);
	return 0;
}
