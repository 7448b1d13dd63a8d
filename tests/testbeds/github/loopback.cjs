// Loaded before the emulator, which would listen on every interface: here it listens on loopback alone.
const net = require('node:net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (where, ...rest) {
  const port = typeof where === 'object' && where !== null ? where.port : where;
  const listening = rest.find((argument) => typeof argument === 'function');
  return listen.call(this, { port, host: '127.0.0.1' }, listening);
};
