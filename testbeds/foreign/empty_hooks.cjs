// What any tool pays that tells the requests of Node.js apart: a context for each, and Node's own hooks for promises and other
// resources, which do nothing here. `bench/runtimes cost-node` shows by it how much of the helper's cost is Node's.
'use strict';
const hooks = require('node:async_hooks'), http = require('node:http'), v8 = require('node:v8');

const storage = new hooks.AsyncLocalStorage();
storage.enterWith(undefined);
v8.promiseHooks.createHook({ settled() {} });
hooks.createHook({ init() {}, before() {} }).enable();
const { emit } = http.Server.prototype;
http.Server.prototype.emit = function (event, ...args) {
  if (event !== 'request') return emit.call(this, event, ...args);
  return storage.run({}, () => emit.call(this, event, ...args));
};
