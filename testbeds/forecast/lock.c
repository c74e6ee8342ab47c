/* A server of one thread a connection, whose requests need one lock for a while.
 *
 * usage: lock PORT HOLD_US OUTSIDE_US
 * A request computes a little, holds the lock for HOLD_US (a part of it computing), then waits for OUTSIDE_US elsewhere.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long hold_us, outside_us;

static long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void compute(long us) {
    for (long end = now_us() + us; now_us() < end;) {}
}

static void pause_for(long us) {
    struct timespec t = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&t, NULL);
}

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
    char head[8192];
    size_t have = 0;
    for (;;) {
        ssize_t got = read(fd, head + have, sizeof head - 1 - have);
        if (got <= 0) break;
        have += (size_t)got;
        head[have] = 0;
        if (!strstr(head, "\r\n\r\n")) {
            if (have == sizeof head - 1) break;
            continue;
        }
        have = 0;
        compute(150);
        pthread_mutex_lock(&lock);
        compute(hold_us / 5);
        pause_for(hold_us - hold_us / 5);
        pthread_mutex_unlock(&lock);
        pause_for(outside_us);
        if (write(fd, reply, sizeof reply - 1) < 0) break;
    }
    close(fd);
    return NULL;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: %s PORT HOLD_US OUTSIDE_US\n", words[0]);
        return 2;
    }
    hold_us = atol(words[2]);
    outside_us = atol(words[3]);
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(words[1])) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 128)) {
        perror("lock: cannot listen");
        return 1;
    }
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(long)fd)) close(fd);
        else pthread_detach(thread);
    }
}
