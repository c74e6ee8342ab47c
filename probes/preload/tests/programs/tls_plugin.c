/* A client whose TLS library is loaded with a plug-in and stays in the plug-in's own scope; or, with one more argument, is
 * loaded by the program itself, which looks up each function. */
#include "common.h"
#include <dlfcn.h>

#ifdef PLUGIN
void *TLS_client_method(void);
void *SSL_CTX_new(void *method);
void *SSL_new(void *context);
int SSL_set_fd(void *session, int fd);
int SSL_connect(void *session);
int SSL_write(void *session, const void *data, int n);
int SSL_read(void *session, void *data, int n);

int talk(int fd)
{
	static const char ask[] = "GET /secret HTTP/1.0\r\n\r\n";
	char told[16] = "";
	void *session = SSL_new(SSL_CTX_new(TLS_client_method()));
	check(SSL_set_fd(session, fd) == 1, "SSL_set_fd");
	check(SSL_connect(session) == 1, "SSL_connect");
	check(SSL_write(session, ask, sizeof(ask) - 1) > 0, "SSL_write");
	check(SSL_read(session, told, sizeof(told) - 1) > 0, "SSL_read");
	return printf("%.8s\n", told);
}
#else
/* As an interpreter's foreign function interface does. */
static int by_name(int fd)
{
	void *l = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
	check(l != NULL, "libssl.so.3");
	void *method = ((void *(*)(void))dlsym(l, "TLS_client_method"))();
	void *context = ((void *(*)(void *))dlsym(l, "SSL_CTX_new"))(method);
	void *session = ((void *(*)(void *))dlsym(l, "SSL_new"))(context);
	check(((int (*)(void *, int))dlsym(l, "SSL_set_fd"))(session, fd) == 1, "SSL_set_fd");
	check(((int (*)(void *))dlsym(l, "SSL_connect"))(session) == 1, "SSL_connect");
	return printf("shaken\n");
}

int main(int argc, char **argv)
{
	alarm(30);
	void *plugin = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*talk)(int) = argc > 3 ? by_name : plugin ? (int (*)(int))dlsym(plugin, "talk") : NULL;
	check(talk != NULL, "the plug-in");
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	check(!connect(fd, (struct sockaddr *)&a, sizeof(a)), "connect");
	return talk(fd) <= 0;
}
#endif
