/* A program that loads a plug-in by its bare name, which is found in the program's own search path alone: first as most
 * do, then bound past whatever is preloaded. With -DPLUGIN: the plug-in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef PLUGIN
int talk(int fd)
{
	return write(fd, "hello", 5);
}
#else
static int with(const char *name, int flags, int fd)
{
	void *plugin = dlopen(name, RTLD_NOW | flags);
	if (!plugin) {
		printf("%s\n", dlerror());
		return -1;
	}
	int (*talk)(int) = (int (*)(int))dlsym(plugin, "talk");
	int n = talk ? talk(fd) : -1;
	dlclose(plugin);
	return n;
}

int main(int argc, char **argv)
{
	int pair[2];
	if (argc < 2 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 2;
	printf("%d", with(argv[1], 0, pair[0]));
	printf(" %d\n", with(argv[1], RTLD_DEEPBIND, pair[0]));
	return with("nowhere.so", RTLD_DEEPBIND, pair[0]) != -1;
}
#endif
