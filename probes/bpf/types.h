/* Types that are the same in the kernel, in programs and where tests run. */
#ifndef WAKEPATH_TYPES_H
#define WAKEPATH_TYPES_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

/* User-space layouts, read with bpf_probe_read_user. */
struct user_iovec { u64 base; u64 len; };
struct user_msghdr { u64 name; u32 namelen; u32 pad; u64 iov; u64 iovlen; u64 control; u64 controllen; u32 flags; u32 pad2; };
struct user_mmsghdr { struct user_msghdr hdr; u32 len; u32 pad; };

#endif
