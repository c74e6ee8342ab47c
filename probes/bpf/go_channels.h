/* Probes where Go's channels hand items over (`record --runtimes=go-channels`): which goroutine sent what another one gets. All but
 * the one at `closechan` are at places where the channel is locked, so that none overtakes another. */
#ifndef WAKEPATH_GO_CHANNELS_H
#define WAKEPATH_GO_CHANNELS_H

/* An item in a channel's room. Items without bytes have one place for all of a channel. */
struct go_item {
	/* What describes its type. */
	u64 of;
	u64 from;
	u64 sent;
	/* Who sent it first, and when. */
	u64 first;
	u64 first_sent;
	u64 hash;
	/* How many are there. */
	u32 count;
	/* Several goroutines sent them. */
	u32 is_mixed;
};

/* By its place in memory. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct owned_key);
	__type(value, struct go_item);
} go_items SEC(".maps");

#define GO_HELD 4

/* What a goroutine got last: it may pass it on. */
struct go_held {
	u64 hash[GO_HELD];
	u64 first[GO_HELD];
	u64 first_sent[GO_HELD];
	u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct owned_key);
	__type(value, struct go_held);
} go_holders SEC(".maps");

#define GO_ITEM_WORDS 8

/* A hash of an item's first bytes; 0 where no word of them is an address in the heap: what is not made for one item may be equal in
 * another. */
static __noinline u64 go_hash(u64 at, u64 bytes)
{
	u64 words[GO_ITEM_WORDS] = {}, hash = bytes, is_unique = 0;

	if (!at || !bytes)
		return 0;
	/* a constant, or a mask: bounds that every verifier sees */
	if (bytes >= sizeof(words) ? bpf_probe_read_user(words, sizeof(words), (void *)at) :
				     bpf_probe_read_user(words, bytes & (sizeof(words) - 1), (void *)at))
		return 0;
	for (int i = 0; i < GO_ITEM_WORDS; i++) {
		is_unique |= words[i] >= GO_HEAP && words[i] < GO_HEAP_END;
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return is_unique ? hash | 1 : 0;
}

/* Who sent an item first that a goroutine sends now: another one, where it is just what that sent. */
static __noinline int go_first(struct go_item *item, u32 tgid)
{
	struct owned_key key = { .tgid = tgid, .of = item ? item->from : 0 };
	struct go_held *held;
	int found = -1;

	if (!item)
		return 0;
	item->first = item->from;
	item->first_sent = item->sent;
	held = item->hash ? bpf_map_lookup_elem(&go_holders, &key) : 0;
	if (!held)
		return 0;
	for (int i = 0; i < GO_HELD; i++) {
		if (held->hash[i] != item->hash)
			continue;
		/* two that are equal: it may be either */
		if (found >= 0 && held->first[found & (GO_HELD - 1)] != held->first[i])
			return 0;
		found = i;
	}
	if (found >= 0) {
		item->first = held->first[found & (GO_HELD - 1)];
		item->first_sent = held->first_sent[found & (GO_HELD - 1)];
	}
	return 0;
}

static __always_inline void go_holds(u32 tgid, u64 goroutine, struct go_item *item)
{
	struct owned_key key = { .tgid = tgid, .of = goroutine };
	struct go_held *held, begun = {};
	u32 i;

	if (!item->hash)
		return;
	held = bpf_map_lookup_elem(&go_holders, &key);
	if (!held) {
		begun.hash[0] = item->hash;
		begun.first[0] = item->first;
		begun.first_sent[0] = item->first_sent;
		begun.count = 1;
		bpf_map_update_elem(&go_holders, &key, &begun, BPF_ANY);
		return;
	}
	i = held->count++ & (GO_HELD - 1);
	held->hash[i] = item->hash;
	held->first[i] = item->first;
	held->first_sent[i] = item->first_sent;
}

/* A goroutine got an item. */
static __noinline int go_hand_over(struct go_at *a, u64 to, struct go_item *item, bool is_empty)
{
	struct wp_handover *r;
	u64 position;

	if (!a || !item || !to || to == item->from)
		return 0;
	go_holds(a->tgid, to, item);
	r = reserve(this_cpu(), sizeof(*r), DROP_TASK, &position);
	if (!r)
		return 0;
	r->ts_ns = a->now;
	r->sent_ns = item->sent;
	r->first_ns = item->first_sent;
	r->tgid = a->tgid;
	r->flags = is_empty ? HANDOVERF_EMPTY : 0;
	r->to = to;
	r->from = item->from;
	r->first = item->first;
	r->of = item->of;
	commit(r, position, sizeof(*r), KIND_HANDOVER, RUNTIME_GO);
	return 0;
}

static __always_inline u64 go_waiter(struct wp_runtime *r, u64 waiter)
{
	return go_number(user_word(waiter + r->waiter_g), r);
}

/* A type's first word is how many bytes its values have. */
static __always_inline u64 go_bytes(u64 of)
{
	return user_word(of);
}

/* An item is put into a channel's room. */
static __always_inline void go_put(struct go_at *a, u64 at, u64 bytes, struct go_item *item)
{
	struct owned_key key = { .tgid = a->tgid, .of = at };
	struct go_item *there = bytes ? 0 : bpf_map_lookup_elem(&go_items, &key);

	item->count = 1;
	if (there && there->count && there->of == item->of) {
		there->is_mixed |= there->from != item->from;
		there->count++;
		return;
	}
	bpf_map_update_elem(&go_items, &key, item, BPF_ANY);
}

/* An item is got out of it. */
static __always_inline void go_get(struct go_at *a, u64 to, u64 at, u64 bytes, u64 of)
{
	struct owned_key key = { .tgid = a->tgid, .of = at };
	struct go_item *there = bpf_map_lookup_elem(&go_items, &key), item = {};

	if (there && there->count && there->of == of) {
		item = *there;
		there->count--;
	}
	/* that something was got tells, whoever sent it */
	if (bytes || (item.from && !item.is_mixed)) {
		item.of = of;
		go_hand_over(a, to, &item, !bytes);
	}
}

/* runtime.send(c, waiter, item): the channel has one that waits. */
static __always_inline int go_gives(struct pt_regs *regs)
{
	struct go_item item = {};
	struct go_at a;
	u64 bytes;

	if (!go_at(regs, &a))
		return 0;
	item.of = user_word(GO_ARG1(regs) + a.r->chan_of);
	bytes = go_bytes(item.of);
	item.from = a.goroutine;
	item.sent = a.now;
	item.hash = go_hash(GO_ARG3(regs), bytes);
	go_first(&item, a.tgid);
	return go_hand_over(&a, go_waiter(a.r, GO_ARG2(regs)), &item, !bytes);
}

/* runtime.recv(c, waiter, …): the one that waits wants to send. Where the channel has room, and it is full, the
 * goroutine gets the first item there, and what the other one sends comes in its place. */
static __always_inline int go_takes_up(struct pt_regs *regs)
{
	struct go_item item = {};
	struct go_at a;
	u64 bytes, room, at;

	if (!go_at(regs, &a))
		return 0;
	item.of = user_word(GO_ARG1(regs) + a.r->chan_of);
	bytes = go_bytes(item.of);
	item.from = go_waiter(a.r, GO_ARG2(regs));
	item.sent = a.now;
	item.hash = go_hash(user_word(GO_ARG2(regs) + a.r->waiter_item), bytes);
	go_first(&item, a.tgid);
	room = user_word(GO_ARG1(regs) + a.r->chan_room);
	if (!room)
		return go_hand_over(&a, a.goroutine, &item, !bytes);
	at = user_word(GO_ARG1(regs) + a.r->chan_items) + bytes * user_word(GO_ARG1(regs) + a.r->chan_next);
	go_get(&a, a.goroutine, at, bytes, item.of);
	go_put(&a, at, bytes, &item);
	return 0;
}

/* typedmemmove(type, place, item), where a goroutine sends into a channel's room. */
static __always_inline int go_puts(struct pt_regs *regs)
{
	struct go_item item = {};
	struct go_at a;
	u64 bytes;

	if (!go_at(regs, &a))
		return 0;
	bytes = go_bytes(GO_ARG1(regs));
	item.of = GO_ARG1(regs);
	item.from = a.goroutine;
	item.sent = a.now;
	item.hash = go_hash(GO_ARG3(regs), bytes);
	go_first(&item, a.tgid);
	go_put(&a, GO_ARG2(regs), bytes, &item);
	return 0;
}

/* typedmemclr(type, place), where a goroutine has got the item that was there. */
static __always_inline int go_gets(struct pt_regs *regs)
{
	struct go_at a;

	if (go_at(regs, &a))
		go_get(&a, a.goroutine, GO_ARG2(regs), go_bytes(GO_ARG1(regs)), GO_ARG1(regs));
	return 0;
}

#define GO_WAITERS 4

/* closechan(c): those that wait for the channel hear of it. */
static __always_inline int go_closes(struct pt_regs *regs)
{
	struct go_item item = {};
	struct go_at a;
	u64 waiter;

	if (!GO_ARG1(regs) || !go_at(regs, &a))
		return 0;
	item.of = user_word(GO_ARG1(regs) + a.r->chan_of);
	item.from = item.first = a.goroutine;
	item.sent = item.first_sent = a.now;
	waiter = user_word(GO_ARG1(regs) + a.r->chan_waiters);
	for (int i = 0; i < GO_WAITERS && waiter; i++) {
		go_hand_over(&a, go_waiter(a.r, waiter), &item, true);
		waiter = user_word(waiter + a.r->waiter_next);
	}
	return 0;
}

RUNTIME_PROBE(on_go_gives, go_gives(regs))
RUNTIME_PROBE(on_go_takes_up, go_takes_up(regs))
RUNTIME_PROBE(on_go_puts, go_puts(regs))
RUNTIME_PROBE(on_go_gets, go_gets(regs))
RUNTIME_PROBE(on_go_closes, go_closes(regs))

#endif
