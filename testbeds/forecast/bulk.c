// A stream in one direction, after CERN's gensink: a sender that writes as fast as it may, and a reader that does a known
// amount of work for every byte.
//   bulkread PORT ROUNDS WARM_S RCVBUF    prints `ready`, then a JSON line of what it read after WARM_S seconds
//   bulksend ADDRESS PORT SECONDS SNDBUF  writes for so long
// ROUNDS is the work: so many rounds of a hash over every byte. A buffer of 0 is left to the kernel. The congestion window
// is Reno's, which grows fast where nothing is lost, so that it is not what limits.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 16 << 10 };

static char chunk[CHUNK];

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static double now_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int stream(int buffer, const char *what, int option) {
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0 || (buffer && setsockopt(s, SOL_SOCKET, option, &buffer, sizeof buffer)))
		fail(what);
	return s;
}

static int send_stream(char **argv) {
	int s = stream(atoi(argv[4]), "SO_SNDBUF", SO_SNDBUFFORCE);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	if (setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) || connect(s, (struct sockaddr *)&to, sizeof to))
		fail("connect");
	double until = now_s() + atof(argv[3]);
	while (now_s() < until)
		if (send(s, chunk, sizeof chunk, MSG_NOSIGNAL) < 0)
			fail("send");
	// what lies in the buffer is not sent any more: it may take long
	struct linger none = {.l_onoff = 1};
	setsockopt(s, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	return 0;
}

static int read_stream(char **argv) {
	int one = 1, l = stream(atoi(argv[4]), "SO_RCVBUF", SO_RCVBUFFORCE), rounds = atoi(argv[2]);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(l, (struct sockaddr *)&at, sizeof at) || listen(l, 1))
		fail("listen");
	puts("ready");
	fflush(stdout);
	int s = accept(l, 0, 0);
	if (s < 0)
		fail("accept");
	uint64_t hash = 14695981039346656037u;
	double warm = now_s() + atof(argv[3]), first = 0, last = 0;
	unsigned long long bytes = 0;
	ssize_t n;
	while ((n = recv(s, chunk, sizeof chunk, 0)) > 0) {
		for (int r = 0; r < rounds; r++)
			for (ssize_t i = 0; i < n; i++)
				hash = (hash ^ (unsigned char)chunk[i]) * 1099511628211u;
		last = now_s();
		if (first)
			bytes += n;
		else if (last >= warm)
			first = last;
	}
	printf("{\"bytes\": %llu, \"seconds\": %.6f, \"hash\": %llu}\n", bytes, last - first, (unsigned long long)hash);
	return 0;
}

int main(int argc, char **argv) {
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	if (argc == 5 && !strcmp(name, "bulksend"))
		return send_stream(argv);
	if (argc == 5 && !strcmp(name, "bulkread"))
		return read_stream(argv);
	fprintf(stderr, "usage: bulkread PORT ROUNDS WARM_S RCVBUF, or bulksend ADDRESS PORT SECONDS SNDBUF\n");
	return 2;
}
