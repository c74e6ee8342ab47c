/* What calls cost. Without arguments: ns a call, one line each, the best of 15 rounds. With a name and a number: that many
 * of the one kind of call, for who counts the system calls that they make. */
#include "common.h"

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static const char *only;
static int rounds = 15, count;

#define CALLS(name, n, call)                                                                                           \
	do {                                                                                                           \
		uint64_t best = ~0ull;                                                                                 \
		int calls = only ? count : (n);                                                                        \
		if (only && strcmp(only, name))                                                                        \
			break;                                                                                         \
		for (int round = 0; round < rounds; round++) {                                                         \
			uint64_t begin = now();                                                                        \
			for (int i = 0; i < calls; i++)                                                                \
				call;                                                                                  \
			uint64_t took = (now() - begin) / calls;                                                       \
			best = took < best ? took : best;                                                              \
		}                                                                                                      \
		if (!only)                                                                                             \
			printf("%s %llu\n", name, (unsigned long long)best);                                           \
	} while (0)

int main(int argc, char **argv)
{
	int pair[2], file = open("/dev/zero", O_RDONLY), ep = epoll_create1(0);
	char in[4096];
	struct epoll_event e[16];
	if (argc == 3) {
		only = argv[1];
		rounds = 1;
		count = atoi(argv[2]);
	}
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	add(ep, pair[0], EPOLLOUT, 1);
	struct pollfd p = {.fd = pair[0], .events = POLLOUT};
	CALLS("read-file", 2000, read(file, in, 1));
	CALLS("write+read-unix", 1000, (write(pair[1], in, 100), read(pair[0], in, 4096)));
	CALLS("poll", 2000, poll(&p, 1, 0));
	CALLS("epoll_wait", 2000, epoll_wait(ep, e, 16, 0));
	if (only && strcmp(only, "http-exchange"))
		return 0;
	uint16_t port;
	int l = listen_here(&port), exchanges = only ? count : 500;
	pid_t child = fork();
	if (!child) {
		/* a client of another process: each request is answered before the next */
		int c = connect_to(port);
		for (int i = 0; i < rounds * exchanges; i++) {
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
	CALLS("http-exchange", exchanges, (epoll_wait(ep, e, 16, -1), answer(c, in, read(c, in, sizeof(in)))));
	wait(NULL);
	return 0;
}
