/* A program that says what it was given. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	printf("%s\n", argc > 1 ? argv[1] : "nothing");
	fflush(stdout);
	return write(1, "by hand\n", 8) != 8;
}
