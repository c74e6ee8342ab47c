/* An HTTPS server and clients in one process, by OpenSSL, or by GnuTLS where GNUTLS is defined. Begins when a line comes on its standard input,
 * and says how many requests failed. With `kept`, each client asks on one connection until the next line. usage: tls new|kept FOLDER ROUNDS */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char key[4096], cert[4096];

#ifdef GNUTLS
#include <gnutls/gnutls.h>
typedef gnutls_session_t session;
static gnutls_certificate_credentials_t own, trusted;

static void set_up(void)
{
	gnutls_certificate_allocate_credentials(&own);
	gnutls_certificate_allocate_credentials(&trusted);
	if (gnutls_certificate_set_x509_key_file(own, cert, key, GNUTLS_X509_FMT_PEM) < 0)
		exit(1);
}

static session begin(int fd, int is_server)
{
	session s;

	gnutls_init(&s, is_server ? GNUTLS_SERVER : GNUTLS_CLIENT);
	gnutls_set_default_priority(s);
	gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, is_server ? own : trusted);
	gnutls_transport_set_int(s, fd);
	if (gnutls_handshake(s) < 0)
		exit(1);
	return s;
}

#define tls_read gnutls_record_recv
#define tls_write gnutls_record_send

static void end(session s)
{
	gnutls_bye(s, GNUTLS_SHUT_WR);
	gnutls_deinit(s);
}
#else
#include <openssl/ssl.h>
typedef SSL *session;
static SSL_CTX *context;

static void set_up(void)
{
	context = SSL_CTX_new(TLS_method());
	if (SSL_CTX_use_certificate_file(context, cert, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		exit(1);
}

static session begin(int fd, int is_server)
{
	session s = SSL_new(context);

	SSL_set_fd(s, fd);
	if ((is_server ? SSL_accept(s) : SSL_connect(s)) != 1)
		exit(1);
	return s;
}

#define tls_read SSL_read
#define tls_write SSL_write

static void end(session s)
{
	SSL_shutdown(s);
	SSL_free(s);
}
#endif

#define SECRET "hunter2-QxKvBzJwMp"
static const struct {
	const char *method, *path;
	int sent, status, length;
} asked[] = {
	{ "GET", "/items", 0, 200, 12 },	{ "GET", "/big", 0, 200, 10000 },
	{ "POST", "/orders", 40000, 201, 2 },	{ "GET", "/missing", 0, 404, 9 },
	{ "GET", "/huge", 0, 200, 300000 },	{ "PUT", "/small", 16384, 200, 16384 },
};
#define COUNT (sizeof(asked) / sizeof(*asked))

static struct sockaddr_in address = { .sin_family = AF_INET };
static int failed;
static volatile int goes_on;

static void write_all(session s, const char *bytes, int length)
{
	while (length > 0) {
		int n = tls_write(s, bytes, length);

		if (n <= 0)
			return;
		bytes += n;
		length -= n;
	}
}

/* Reads a message: its head into `head`, and how long its body was; -1 at the end of the connection. */
static int read_message(session s, char head[4096])
{
	int have = 0, length = 0, n;
	char *over = 0, *field;

	while (!over) {
		n = tls_read(s, head + have, 4095 - have);
		if (n <= 0)
			return -1;
		have += n;
		head[have] = 0;
		over = strstr(head, "\r\n\r\n");
	}
	field = strstr(head, "Content-Length: ");
	if (field && field < over)
		length = atoi(field + 16);
	have -= over + 4 - head;
	*over = 0;
	while (have < length) {
		char body[4096];

		n = tls_read(s, body, sizeof(body));
		if (n <= 0)
			return -1;
		have += n;
	}
	return length;
}

static void *answer(void *fd)
{
	session s = begin((long)fd, 1);
	static char body[300000];
	char head[4096], path[64];
	size_t i;

	while (read_message(s, head) >= 0) {
		sscanf(head, "%*s %63[^? ]", path);
		for (i = 0; i < COUNT - 1 && strcmp(path, asked[i].path); i++)
			;
		snprintf(head, sizeof(head), "HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n", asked[i].status, asked[i].length);
		write_all(s, head, strlen(head));
		write_all(s, body, asked[i].length);
	}
	end(s);
	close((long)fd);
	return 0;
}

static void *serve(void *listener)
{
	pthread_t thread;
	long fd;

	while ((fd = accept((long)listener, 0, 0)) >= 0) {
		pthread_create(&thread, 0, answer, (void *)fd);
		pthread_detach(thread);
	}
	return 0;
}

static void *ask(void *unused)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	static char body[40000 + sizeof(SECRET)];
	char head[4096];
	session s;
	size_t i;

	for (i = 0; i < 40000; i += sizeof(SECRET) - 1)
		memcpy(body + i, SECRET, sizeof(SECRET) - 1);
	if (connect(fd, (void *)&address, sizeof(address)))
		exit(1);
	s = begin(fd, 0);
again:
	for (i = 0; i < COUNT; i++) {
		snprintf(head, sizeof(head), "%s %s?key=" SECRET " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " SECRET "\r\nContent-Length: %d\r\n\r\n", asked[i].method, asked[i].path, asked[i].sent);
		write_all(s, head, strlen(head));
		write_all(s, body, asked[i].sent);
		if (read_message(s, head) != asked[i].length || atoi(head + 9) != asked[i].status)
			__sync_fetch_and_add(&failed, 1);
	}
	if (goes_on)
		goto again;
	end(s);
	close(fd);
	return unused;
}

int main(int count, char **args)
{
	long listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof(address);
	pthread_t server, clients[2];
	int round, i;
	char *make;

	if (count != 4)
		return 2;
	snprintf(key, sizeof(key), "%s/key.pem", args[2]);
	snprintf(cert, sizeof(cert), "%s/cert.pem", args[2]);
	if (asprintf(&make, "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout '%s' -out '%s' 2> /dev/null", key, cert) < 0 || system(make))
		return 1;
	set_up();
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (void *)&address, sizeof(address)) || listen(listener, 16) || getsockname(listener, (void *)&address, &size))
		return 1;
	pthread_create(&server, 0, serve, (void *)listener);
	puts("ready");
	fflush(stdout);
	getchar();
	goes_on = !strcmp(args[1], "kept");
	for (round = 0; round < atoi(args[3]); round++) {
		for (i = 0; i < 2; i++)
			pthread_create(&clients[i], 0, ask, 0);
		if (goes_on)
			goes_on = !getchar();
		for (i = 0; i < 2; i++)
			pthread_join(clients[i], 0);
	}
	printf("%d failed\n", failed);
	fflush(stdout);
	getchar();
	return 0;
}
