// Lets Wakepath tell the requests of a Node.js process apart: `node --require ./wakepath.cjs app.js`, or, in a process that runs,
// `wakepath attach PID`.
//
// Each request to an HTTP server gets a context (AsyncLocalStorage). Its number stands in a small piece of memory while what
// was written in that context goes to a socket, and nothing else is told to anybody: no file, no connection, no thread.
// Wakepath finds the piece by two words and reads the number from outside.
//
// A number is told only where it is certain who wrote: libraries run one request's callback, or send one request's command,
// in the context of another. So a context is *doubted* for good, and its reply tells no number, without which none of its
// calls counts, as soon as
//  - a promise of one request is settled or awaited by another request that is not over;
//  - an answer on a connection resumes another request than the one that wrote there, or does not resume that one before
//    the reply;
//  - its reply is written in another context.
//
// A request that was under way when the helper came has no context, so that nothing is told of it.
'use strict';
const hooks = require('node:async_hooks'), http = require('node:http'), https = require('node:https'), net = require('node:net');
const channels = require('node:diagnostics_channel'), Module = require('node:module'), v8 = require('node:v8');

const [MAJOR, MINOR] = process.versions.node.split('.').map(Number);
// the C library gives a block of more than 32 MiB a mapping of its own, in which only the first page is ever touched
const BYTES = 34 << 20;
const MAGIC = [0x70ec5c1b, 0x9e0d4a37, 0x51f2b6c8, 0xd3a86e95];
const LAYOUT = 1;
const [AT_PID, AT_LAYOUT, AT_ID, AT_SECONDS, AT_NANOSECONDS] = [4, 5, 6, 8, 9];
/** Where a process has what stays of a helper that was taken away: the next one goes on with its memory and numbers. */
const PLACE = Symbol.for('wakepath.helper');

const CONTEXT = Symbol('wakepath.context');
const LINE = Symbol('wakepath.line');
const SERVES = Symbol('wakepath.serves');
/** Of a response: its last part is written. */
const ENDS = Symbol('wakepath.ends');
/** Of a promise of the answer to a call: whose. */
const ANSWERS = Symbol('wakepath.answers');
/** Chunks of several contexts wait to be written. */
const SEVERAL = Symbol('wakepath.several');

const storage = new hooks.AsyncLocalStorage();
/** Where a promise has the context in which it was made. */
const OF_PROMISE = storage.kResourceStore ?? CONTEXT;
let memory = null, kept = null, active = false;
/** What undoes each change, in order. */
const undoing = [];
/** What runs since a socket was read: the line that it is of, and whose turn it is. */
let turn = null;
/** Where Node keeps contexts itself: that of each of the last resources, by the resource's number. A power of two. */
const RESOURCES = 1 << 18;
let contexts = [];

/** What is known of one request. */
class Context {
  constructor() {
    this.id = ++kept.last;
    const [seconds, nanoseconds] = process.hrtime();
    this.seconds = seconds;
    this.nanoseconds = nanoseconds;
    /** Calls whose answers have not resumed it. */
    this.waits = 0;
    this.doubted = false;
    /** A part of its reply was written, and the last one, as far as that is followed. */
    this.replies = false;
    this.over = false;
    /** It told its number with its reply: with the last part, or with one before, if nothing spoke against it since. */
    this.told = false;
    /** Who told a number and is named by its reply, which has none of its own: so it is known to have worked for another. */
    this.names = null;
    /** It is named, or will be. */
    this.isNamed = false;
  }
}

/** So many changes of who writes are known of a connection. */
const WRITERS_MAX = 1024;
/** Who told a number, turned out to have worked for another, and is not named yet. */
let unnamed = [];

/** What is known of a connection on which contexts write. */
class Line {
  constructor() {
    /** Who wrote last. */
    this.owner = null;
    /** Who wrote, in order, each with the number of the youngest request that there was. */
    this.writers = [];
    /** Its answer has not resumed it. */
    this.waits = false;
    /** A library that is known tells whose each answer is. */
    this.shared = false;
    /** The context as which the library writes now, where it tells. */
    this.as = undefined;
    /** Of chunks that wait to be written. */
    this.unwritten = null;
  }

  wrote(context) {
    const last = this.writers.at(-1);
    if (last?.context === context) last.youngest = kept.last;
    else this.writers.push({ context, youngest: kept.last });
    if (this.writers.length > WRITERS_MAX) this.writers.shift();
  }

  /** An answer resumed a context that did not write last: each who wrote since that began may have written for it, among others. */
  doubtWriters(context) {
    for (const { context: writer, youngest } of this.writers) {
      if (writer !== context && youngest >= context.id) doubt(context, writer);
    }
  }
}

/** What one read of a socket sets going. */
class Turn {
  constructor(line) {
    this.line = line;
    this.owner = line.shared ? null : line.owner;
    this.waits = !line.shared && line.waits;
    /** Contexts that may be resumed too: how many calls of each were answered. */
    this.also = null;
  }

  allow(context, answers) {
    this.also ??= new Map();
    this.also.set(context, (this.also.get(context) ?? 0) + answers);
  }
}

const current = () => (active ? storage.getStore() : undefined);
/** A store that is asked once switches its hooks on, for good. */
const within = (context, run, ...args) => (active ? storage.run(context, run, ...args) : run(...args));
const isOpen = context => context instanceof Context && !context.over;

function doubt(a, b) {
  for (const [context, other] of [[a, b], [b, a]]) {
    if (!isOpen(context)) continue;
    context.doubted = true;
    if (context.told) name(context);
    context.told = false;
    if (other instanceof Context && other.told) name(other);
  }
}

/** It told a number, and a reply of another one is to show that it may not be believed. */
function name(context) {
  if (context.isNamed) return;
  context.isNamed = true;
  unnamed.push(context);
}

function awaits(context, of) {
  if (of !== undefined && of !== context && isOpen(of) && isOpen(context)) doubt(of, context);
}

/** A promise was made, where Node does not keep its context: by whom awaits the other, if there is one. */
function onPromise(promise, awaited) {
  const context = current();
  if (context === undefined) return;
  promise[CONTEXT] = context;
  if (awaited !== undefined) awaits(context, awaited[CONTEXT]);
}

/**
 * Anything was made, where Node keeps contexts. `trigger` is the number of the promise that is awaited, or of what runs. A second hook for
 * promises, which would get the awaited one itself, costs three times as much.
 */
function onResource(number, type, trigger, resource) {
  const context = resource[OF_PROMISE];
  contexts[number & (RESOURCES - 1)] = context;
  if (context === undefined || type !== 'PROMISE') return;
  const of = contexts[trigger & (RESOURCES - 1)];
  if (of === undefined || of === context || of.over || number - trigger >= RESOURCES) return;
  if (trigger !== hooks.executionAsyncId()) awaits(context, of);
}

function onSettled(promise) {
  const of = promise[OF_PROMISE];
  if (of === undefined || of.over) return;
  if (promise[ANSWERS] === of) turn?.allow(of, 1);
  const context = current();
  if (context !== undefined && context !== of && isOpen(context)) doubt(of, context);
}

/** Goes on in the same turn: what promises, ticks and scopes of libraries run. A timer, say, begins another. */
function isSameTurn(resource) {
  return resource.constructor === Object || resource instanceof hooks.AsyncResource ||
    resource.constructor?.name === 'HTTPClientAsyncResource';
}

/** Something runs. */
function before() {
  if (turn === null) return;
  const resource = hooks.executionAsyncResource();
  if (!(resource instanceof Promise)) {
    if (!isSameTurn(resource)) turn = null;
    return;
  }
  const context = resource[OF_PROMISE];
  if (context === undefined || context.over) return;
  if (context === turn.owner) {
    if (turn.waits) resumed(turn);
    return;
  }
  const answers = turn.also?.get(context);
  if (answers === undefined) {
    doubt(context, turn.owner);
    turn.line.doubtWriters(context);
    turn.also?.forEach((_, other) => doubt(context, other));
  } else if (answers > 0) {
    context.waits -= answers;
    turn.also.set(context, 0);
  }
}

/** The owner of a turn's line was resumed by what was read. */
function resumed(of) {
  of.waits = false;
  of.owner.waits--;
  if (of.line.owner === of.owner) of.line.waits = false;
}

/** The answer to a call came, as the library says that made it. */
function answered(line, context) {
  if (!line?.waits || line.owner !== context) return;
  if (turn?.line === line && turn.owner === context) turn.waits = false;
  line.waits = false;
  context.waits--;
}

/** A context writes on a connection. */
function calls(line, context) {
  if (line.shared) return;
  line.wrote(context);
  if (line.owner === context && line.waits) return;
  const isTurn = turn !== null && turn.line === line;
  if (line.waits && line.owner !== context) {
    // who waits for what this turn has read may be resumed yet; else two wait on one connection
    if (!isTurn) {
      doubt(line.owner, context);
      line.owner.waits--;
    }
  }
  line.owner = context;
  line.waits = true;
  context.waits++;
}

/**
 * Who writes on a connection to a client: the request whose reply it is, if nobody else can have had a part in it. A reply of which
 * nobody knows how long it will be is written in parts, between which its request goes on. Each of them tells what is known by then,
 * and the last one counts.
 */
function replies(socket) {
  const response = socket._httpMessage, of = response?.[CONTEXT];
  // before the head there may be others, which say that the reply is still to come
  if (of === undefined || (!of.over && response._header == null)) return null;
  if (!of.over) {
    const context = current();
    if (context !== of && (!of.replies || isOpen(context))) doubt(of, context);
    of.replies = true;
    // what goes on in nobody's name is not followed
    of.over = !response.chunkedEncoding || response[ENDS] === true || context !== of;
    if (of.doubted || (of.over && of.waits > 0)) of.told = false;
    else if (of.waits === 0 && context === of) of.told = true;
    // one number a reply: others wait for the next that tells none of its own
    if (of.over && !of.told) {
      // of itself its last part tells enough
      unnamed = unnamed.filter(other => other !== of);
      of.names = unnamed.shift() ?? null;
    }
  }
  // who told already is known by this to have worked for another
  return of.told ? of : of.names;
}

/** It came from a client. */
const serves = socket => socket[SERVES] || socket.server != null;

/** Bytes are given to a socket. */
function given(socket) {
  if (!active) return;
  let line = socket[LINE], who;
  if (serves(socket)) {
    who = replies(socket);
    line ??= socket[LINE] = new Line();
  } else {
    who = encoded.by !== undefined ? encoded.by : line?.as ?? current() ?? null;
    if (who === null && line === undefined) return;
    line ??= socket[LINE] = new Line();
    if (encoded.by !== undefined) {
      line.shared = true;
      // what another's command waits behind goes out by itself
      if (socket.writableCorked > 0 && socket.writableLength > 0 && line.unwritten !== who) {
        socket.uncork();
        socket.cork();
      }
    }
    if (who?.over) who = null;
    else if (who !== null) calls(line, who);
  }
  line.unwritten = socket.writableLength === 0 || line.unwritten === who ? who : SEVERAL;
}

/** Puts a method in the place of another. */
function patch(of, name, make) {
  const before = Object.getOwnPropertyDescriptor(of, name), original = of[name];
  const made = make(original);
  Object.defineProperty(made, 'name', { value: original.name });
  Object.defineProperty(of, name, { writable: true, configurable: true, ...before, value: made });
  undoing.push(() => {
    // who put another before it calls it still, so that it must stay
    if (of[name] !== made) return false;
    if (before) Object.defineProperty(of, name, before);
    else delete of[name];
    return true;
  });
}

function subscribe(channel, listener) {
  channels.subscribe(channel, listener);
  undoing.push(() => channels.unsubscribe(channel, listener));
}

function patchSockets() {
  const socket = net.Socket.prototype;
  patch(socket, 'write', write => function (...args) {
    given(this);
    return Reflect.apply(write, this, args);
  });
  patch(socket, 'end', end => function (...args) {
    if (args[0] != null && typeof args[0] !== 'function') given(this);
    return Reflect.apply(end, this, args);
  });
  patch(socket, '_writeGeneric', generic => function (...args) {
    const who = this[LINE]?.unwritten;
    if (!active || !(who instanceof Context)) return Reflect.apply(generic, this, args);
    memory[AT_SECONDS] = who.seconds;
    memory[AT_NANOSECONDS] = who.nanoseconds;
    memory[AT_ID] = who.id;
    try {
      return Reflect.apply(generic, this, args);
    } finally {
      memory[AT_ID] = 0;
    }
  });
  patch(socket, 'push', push => function (chunk, encoding) {
    if (!active) return push.call(this, chunk, encoding);
    const line = serves(this) ? undefined : this[LINE];
    turn = line === undefined ? null : new Turn(line);
    if (line === undefined) return push.call(this, chunk, encoding);
    // not in the context of who happened to open the connection
    return within(undefined, push.bind(this), chunk, encoding);
  });
}

function patchServers() {
  for (const { prototype } of [http.Server, https.Server]) {
    patch(prototype, 'emit', emit => function (event, request, response, ...more) {
      if (event !== 'request' || !active) return emit.call(this, event, request, response, ...more);
      turn = null;
      const context = new Context();
      request[CONTEXT] = response[CONTEXT] = context;
      if (request.socket) request.socket[SERVES] = true;
      return within(context, () => emit.call(this, event, request, response, ...more));
    });
  }
  patch(http.ServerResponse.prototype, 'end', end => function (...args) {
    this[ENDS] = true;
    return Reflect.apply(end, this, args);
  });
  // the rest of a request is read in the connection's context
  for (const { prototype } of [http.IncomingMessage, http.ServerResponse]) {
    patch(prototype, 'emit', emit => function (...args) {
      const context = this[CONTEXT];
      if (context === undefined || context === current()) return Reflect.apply(emit, this, args);
      return within(context, () => Reflect.apply(emit, this, args));
    });
  }
}

function patchClients() {
  patch(http.ClientRequest.prototype, 'emit', emit => function (...args) {
    if (args[0] === 'response') {
      const context = current();
      if (context !== undefined) answered(this.socket?.[LINE], context);
    }
    return Reflect.apply(emit, this, args);
  });
  // undici writes a request when another's answer came
  const requests = new WeakMap();
  const lineOf = request => requests.get(request)?.line;
  subscribe('undici:request:create', ({ request }) => {
    const context = current();
    if (context !== undefined) requests.set(request, { context, line: null });
  });
  subscribe('undici:client:sendHeaders', ({ request, socket }) => {
    const line = socket[LINE] ??= new Line(), made = requests.get(request);
    line.as = made?.context ?? null;
    if (made) made.line = line;
  });
  subscribe('undici:request:bodySent', ({ request }) => {
    const line = lineOf(request);
    if (line) line.as = null;
  });
  subscribe('undici:request:headers', ({ request }) => {
    const made = requests.get(request);
    if (made) answered(made.line, made.context);
  });
}

/** A pool gives a waiting request the connection that another released. */
function patchPgPool(Pool) {
  patch(Pool.prototype, 'connect', connect => function (callback) {
    const context = current();
    if (context === undefined) return connect.call(this, callback);
    const given = then => (...args) => {
      turn?.allow(context, 0);
      return within(context, then, ...args);
    };
    if (callback) return connect.call(this, given(callback));
    return new this.Promise((resolve, reject) => {
      connect.call(this, given((error, client) => (error ? reject(error) : resolve(client))));
    });
  });
}

/** Other pools promise a connection, and who releases one keeps the promise. */
function patchPromised(Promised) {
  if (typeof Promised?.prototype?.resolve !== 'function') return;
  patch(Promised.prototype, 'resolve', resolve => function (value) {
    const context = (this.deferred?.promise ?? this._promise)?.[OF_PROMISE];
    if (!isOpen(context)) return resolve.call(this, value);
    turn?.allow(context, 0);
    return within(context, resolve.bind(this), value);
  });
}

/** Whoever releases a connection looks at it for who gets it, and keeps a promise of nobody's. */
function patchTarn({ Pool }) {
  for (const name of ['release', '_doAcquire']) {
    if (!Object.hasOwn(Pool?.prototype ?? {}, name)) continue;
    patch(Pool.prototype, name, run => function (...args) {
      return within(undefined, run.bind(this), ...args);
    });
  }
}

/** A client that has a query under way puts others off. */
function patchPg({ Client, Query }) {
  if (!Client?.prototype.query || !Query?.prototype.submit) return;
  patch(Client.prototype, 'query', query => function (...args) {
    const result = Reflect.apply(query, this, args);
    const context = current(), waiting = this._queryQueue;
    const last = Array.isArray(waiting) ? waiting.at(-1) : undefined;
    if (last && !(CONTEXT in last)) last[CONTEXT] = context;
    return result;
  });
  patch(Query.prototype, 'submit', submit => function (...args) {
    if (!(CONTEXT in this)) return Reflect.apply(submit, this, args);
    return within(this[CONTEXT], () => Reflect.apply(submit, this, args));
  });
}

/** What runs when others are done is run by whoever is done. */
function patchQueue(Queue) {
  if (!Object.hasOwn(Queue?.prototype ?? {}, 'enqueue')) return;
  patch(Queue.prototype, 'enqueue', enqueue => function (run, ...more) {
    const context = current();
    if (context === undefined || typeof run !== 'function') return enqueue.call(this, run, ...more);
    return enqueue.call(this, (...args) => {
      turn?.allow(context, 0);
      return within(context, run, ...args);
    }, ...more);
  });
}

/** mysql2's pool does so too. */
function patchMysqlPool(Pool) {
  if (!Object.hasOwn(Pool.prototype ?? {}, 'getConnection')) return;
  patch(Pool.prototype, 'getConnection', get => function (then) {
    const context = current();
    if (context === undefined || typeof then !== 'function') return get.call(this, then);
    return get.call(this, (...args) => {
      turn?.allow(context, 0);
      return within(context, then, ...args);
    });
  });
}

/** A command is sent when those before it on its connection have their answers. */
function patchMysqlConnection(Connection) {
  if (!Object.hasOwn(Connection.prototype ?? {}, 'addCommand')) return;
  patch(Connection.prototype, 'addCommand', add => function (command) {
    const context = current();
    if (context !== undefined && typeof command?.execute === 'function' && !Object.hasOwn(command, 'execute')) {
      const { execute, onResult } = command;
      command.execute = (...args) => within(context, () => Reflect.apply(execute, command, args));
      if (typeof onResult === 'function') {
        command.onResult = (...args) => {
          answered(this.stream?.[LINE], context);
          return Reflect.apply(onResult, command, args);
        };
      }
    }
    return add.call(this, command);
  });
}

/** Commands wait until there is a connection, or go out with others'. */
function patchIoredis(module) {
  const Redis = module.Redis ?? module.default ?? module;
  if (typeof Redis?.prototype?.sendCommand !== 'function') return;
  patch(Redis.prototype, 'sendCommand', send => function (command, stream, ...more) {
    if (!active) return send.call(this, command, stream, ...more);
    if (!(CONTEXT in command)) noted(command);
    let context = command[CONTEXT];
    if (stream?.isPipeline) {
      const others = stream[CONTEXT];
      stream[CONTEXT] = CONTEXT in stream && others !== context ? null : context;
      context = stream[CONTEXT] ?? undefined;
    }
    if (this.stream instanceof net.Socket) (this.stream[LINE] ??= new Line()).shared = true;
    return within(context, () => send.call(this, command, stream, ...more));
  });
  const noted = command => {
    const context = command.promise?.[OF_PROMISE] ?? current();
    command[CONTEXT] = context;
    if (!isOpen(context)) return;
    context.waits++;
    for (const name of ['resolve', 'reject']) {
      const settle = command[name];
      if (typeof settle !== 'function') continue;
      command[name] = value => {
        turn?.allow(context, 1);
        return settle.call(command, value);
      };
    }
  };
}

/** node-redis writes the commands of several at once, each of which it encodes just before. */
const encoded = { by: undefined, byWords: new WeakMap() };

function patchRedisQueue({ default: Queue }) {
  if (typeof Queue?.prototype?.addCommand !== 'function') return;
  patch(Queue.prototype, 'addCommand', add => function (args, ...more) {
    const context = current(), { byWords } = encoded;
    // whose a list of words is that two have sent nobody knows
    const isList = Array.isArray(args);
    if (isList) byWords.set(args, !byWords.has(args) || byWords.get(args) === context ? context : undefined);
    const promise = add.call(this, args, ...more);
    if (isOpen(context) && promise instanceof Promise) {
      promise[ANSWERS] = context;
      context.waits++;
    }
    return promise;
  });
}

function patchRedisSocket({ default: Socket }) {
  const put = (name, who) => {
    if (typeof Socket?.prototype?.[name] !== 'function') return;
    patch(Socket.prototype, name, write => function (what) {
      encoded.by = who(what);
      try {
        return write.call(this, what);
      } finally {
        encoded.by = undefined;
      }
    });
  };
  put('write', () => null);
  // until version 4
  put('writeCommand', args => encoded.byWords.get(args) ?? null);
}

function patchRedisEncoder(module) {
  patch(module, 'default', encode => function (args) {
    const { byWords } = encoded, out = encode(args);
    if (encoded.by !== undefined) encoded.by = byWords.get(args) ?? null;
    // from 4.1 to 4.7 the socket is given what was encoded before
    if (Array.isArray(out)) byWords.set(out, byWords.get(args));
    return out;
  });
}

/** A pool whose connections are all taken puts requests off. */
function patchUndici({ Pool }) {
  const base = Pool && Object.getPrototypeOf(Pool.prototype), dispatcher = base && Object.getPrototypeOf(base);
  const named = (of, name) => Object.getOwnPropertySymbols(of).find(symbol => symbol.description === name);
  const put = base && named(base, 'dispatch');
  if (!put || typeof dispatcher.dispatch !== 'function') return;
  const makers = new WeakMap(), before = base[put];
  patch(base, put, original => function (options, handler) {
    if (!makers.has(handler)) makers.set(handler, current());
    return original.call(this, options, handler);
  });
  patch(dispatcher, 'dispatch', dispatch => function (options, handler) {
    // a pool that was used before keeps the method that it had then
    const keeps = named(this, 'Intercepted Dispatch');
    if (active && keeps && this[keeps] === before) this[keeps] = base[put];
    if (!makers.has(handler)) return dispatch.call(this, options, handler);
    return within(makers.get(handler), () => dispatch.call(this, options, handler));
  });
}

const PATCHES = [
  [/[\\/]node_modules[\\/]undici[\\/]index\.js$/, patchUndici],
  [/[\\/]node_modules[\\/]pg-pool[\\/]/, patchPgPool],
  [/[\\/]node_modules[\\/]pg[\\/]lib[\\/]index\.js$/, patchPg],
  [/[\\/]node_modules[\\/]tarn[\\/]dist[\\/]PendingOperation\.js$/, module => patchPromised(module.PendingOperation)],
  [/[\\/]node_modules[\\/]tarn[\\/]dist[\\/]Pool\.js$/, patchTarn],
  [/[\\/]node_modules[\\/]sequelize-pool[\\/]lib[\\/]Deferred\.js$/, module => patchPromised(module.Deferred)],
  [/[\\/]node_modules[\\/]generic-pool[\\/]lib[\\/]Deferred\.js$/, patchPromised],
  [/[\\/]node_modules[\\/]yocto-queue[\\/]index\.js$/, patchQueue],
  [/[\\/]node_modules[\\/]p-queue[\\/]dist[\\/]priority-queue\.js$/, module => patchQueue(module.default)],
  [/[\\/]node_modules[\\/]mysql2[\\/]lib[\\/](base[\\/])?pool\.js$/, patchMysqlPool],
  [/[\\/]node_modules[\\/]mysql2[\\/]lib[\\/](base[\\/])?connection\.js$/, patchMysqlConnection],
  [/[\\/]node_modules[\\/]ioredis[\\/]built[\\/]index\.js$/, patchIoredis],
  [/[\\/]node_modules[\\/]@redis[\\/]client[\\/]dist[\\/]lib[\\/]client[\\/]commands-queue\.js$/, patchRedisQueue],
  [/[\\/]node_modules[\\/]@redis[\\/]client[\\/]dist[\\/]lib[\\/]client[\\/]socket\.js$/, patchRedisSocket],
  [/[\\/]node_modules[\\/]@redis[\\/]client[\\/]dist[\\/]lib[\\/](client[\\/])?RESP2?[\\/]encoder\.js$/, patchRedisEncoder],
];

function patchModules() {
  const patched = new WeakSet();
  const look = (file, exports) => {
    const isObject = (typeof exports === 'object' && exports !== null) || typeof exports === 'function';
    if (!isObject || patched.has(exports)) return;
    const found = PATCHES.find(([where]) => where.test(file));
    if (!found) return;
    patched.add(exports);
    found[1](exports);
  };
  for (const [file, module] of Object.entries(Module._cache)) {
    if (module?.loaded) look(file, module.exports);
  }
  patch(Module, '_load', load => function (request, parent, isMain) {
    const exports = Reflect.apply(load, this, [request, parent, isMain]);
    const isOne = /pg|redis|undici|queue/.test(request) || /[\\/](mysql2|tarn|sequelize-pool|generic-pool|@redis)[\\/]/.test(parent?.filename);
    if (!active || !isOne) return exports;
    let file = request;
    try {
      file = Module._resolveFilename(request, parent, isMain);
    } catch {}
    look(file, exports);
    return exports;
  });
}

/** Undoes all; says how many methods must stay, which do nothing any more. */
function end() {
  active = false;
  memory[AT_ID] = 0;
  memory[AT_LAYOUT] = 0;
  turn = null;
  unnamed = [];
  kept.end = null;
  const stay = undoing.reverse().filter(undo => undo() === false);
  undoing.length = 0;
  // this may have come amid a hook, which is called to its end
  contexts = [];
  return `ended ${stay.length}`;
}

/** What undoes it. */
function follow(callbacks) {
  const followed = hooks.createHook(callbacks).enable();
  return () => void followed.disable();
}

/** Changes what has to be changed. */
function change() {
  if (OF_PROMISE === CONTEXT) {
    undoing.push(v8.promiseHooks.createHook({ init: onPromise, settled: onSettled }), follow({ before }));
  } else {
    contexts = new Array(RESOURCES).fill(undefined);
    // Node's own hook, which gives a resource its context, comes before
    storage.enterWith(undefined);
    undoing.push(v8.promiseHooks.createHook({ settled: onSettled }), follow({ init: onResource, before }));
  }
  undoing.push(() => storage.disable());
  patchSockets();
  patchServers();
  patchClients();
  patchModules();
}

/** Says what became of it. */
function begin() {
  if (MAJOR < 18 || (MAJOR === 18 && MINOR < 19)) return `version ${process.versions.node}`;
  if (!require('node:worker_threads').isMainThread) return 'worker';
  kept = globalThis[PLACE];
  if (kept?.end) return 'present';
  if (!kept) {
    kept = { memory: new Uint32Array(new ArrayBuffer(BYTES)), last: 0, end: null };
    Object.defineProperty(globalThis, PLACE, { value: kept });
  }
  ({ memory } = kept);
  kept.end = end;
  active = true;
  memory[AT_PID] = process.pid;
  memory.set(MAGIC);
  try {
    change();
  } catch (error) {
    // the program goes on as if there were no helper
    end();
    return `failed ${error}`;
  }
  memory[AT_LAYOUT] = LAYOUT;
  return 'begun';
}

module.exports = begin();
