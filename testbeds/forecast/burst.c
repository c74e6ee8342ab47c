// Clients that all come at once: burst ADDRESS PORT CLIENTS PERIOD_MS SECONDS. At each period's begin so many connect, ask
// for / over HTTP/1.0 and read until the end. A JSON line tells how many were answered and how long they took, from the begin
// of the period until the last byte: who finds no room in the accept queue waits until its SYN is sent again.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 4096 };

static const char request[] = "GET / HTTP/1.0\r\nHost: burst\r\n\r\n";

static long long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

struct client {
	long long begin_ns;
	int is_asked, bytes;
};

static struct pollfd fds[CLIENTS_MAX];
static struct client clients[CLIENTS_MAX];
static int open_count;

static void connect_to(const struct sockaddr_in *to, long long begin_ns) {
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (s < 0 || (connect(s, (const struct sockaddr *)to, sizeof *to) && errno != EINPROGRESS)) {
		perror("connect");
		exit(1);
	}
	fds[open_count] = (struct pollfd){.fd = s, .events = POLLOUT};
	clients[open_count++] = (struct client){.begin_ns = begin_ns};
}

int main(int argc, char **argv) {
	if (argc != 6) {
		fprintf(stderr, "usage: burst ADDRESS PORT CLIENTS PERIOD_MS SECONDS\n");
		return 2;
	}
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	int each = atoi(argv[3]);
	long long period_ns = atoll(argv[4]) * 1000000, begin_ns = now_ns(), next_ns = begin_ns, last_ns = begin_ns, sum_ns = 0;
	long long until_ns = begin_ns + (long long)(atof(argv[5]) * 1e9);
	int answered = 0, failed = 0;
	while (open_count || next_ns < until_ns) {
		if (next_ns < until_ns && now_ns() >= next_ns) {
			for (int i = 0; i < each && open_count < CLIENTS_MAX; i++)
				connect_to(&to, next_ns);
			next_ns += period_ns;
		}
		long long left = next_ns < until_ns ? next_ns - now_ns() : 1000000000;
		struct timespec wait = {.tv_sec = left > 0 ? left / 1000000000 : 0, .tv_nsec = left > 0 ? left % 1000000000 : 0};
		ppoll(fds, open_count, &wait, 0);
		for (int i = open_count; i-- > 0;) {
			char room[4096];
			struct client *c = &clients[i];
			ssize_t n = 1;
			if (!fds[i].revents)
				continue;
			if (!c->is_asked) {
				n = send(fds[i].fd, request, sizeof request - 1, MSG_NOSIGNAL);
				c->is_asked = 1;
				fds[i].events = POLLIN;
			} else {
				n = recv(fds[i].fd, room, sizeof room, 0);
				c->bytes += n > 0 ? n : 0;
			}
			if (n > 0)
				continue;
			last_ns = now_ns();
			if (n == 0 && c->bytes) {
				answered++;
				sum_ns += last_ns - c->begin_ns;
			} else {
				failed++;
			}
			close(fds[i].fd);
			fds[i] = fds[--open_count];
			clients[i] = clients[open_count];
		}
	}
	printf("{\"answered\": %d, \"failed\": %d, \"seconds\": %.6f, \"mean_ns\": %.0f}\n", answered, failed,
	       (last_ns - begin_ns) / 1e9, answered ? (double)sum_ns / answered : 0.0);
	return 0;
}
