// An axios instance behind a guard; `axios` itself stays as it is. Errors are axios's own, but for a blocked channel and the timeout.
//
//   npm install fuseline axios
//   const pay = guardAxios(axios.create({ baseURL: 'https://…' }), fuse, { channel: 'ALIPAY', timeout: 3_000 });
import axios from 'axios';
import { codeOf, speaksForTheChannel } from './guarded-fetch.mjs';

/** `channel`: a name, or a function of the request's config. Works below interceptors, so what they change or retry is seen call by call. */
export function guardAxios(instance, fuse, { channel, timeout = 5_000 }) {
  const send = axios.getAdapter(instance.defaults.adapter);
  instance.defaults.adapter = async (config) => {
    const name = typeof channel === 'function' ? channel(config) : channel;
    const { response, error } = await fuse.guard(name, (call) => answerOf(send, config, call), {
      success: (answer) => speaksForTheChannel(answer.response.status),
      // What the caller broke off does not blame the channel; axios has a name of its own for it.
      code: (end) => {
        if (end.result) return codeOf(end.result.response.status);
        return axios.isCancel(end.error) ? 'CLIENT_CANCELLED' : end.error?.code;
      },
      timeout,
    });
    if (error) throw error;
    return response;
  };
  return instance;
}

/** axios throws for a 404 too; an answer is an answer, so it is judged by its status and thrown again outside. */
async function answerOf(send, config, { signal }) {
  const signals = config.signal ? AbortSignal.any([config.signal, signal]) : signal;
  try {
    return { response: await send({ ...config, signal: signals }) };
  } catch (error) {
    if (!error.response) throw error;
    return { response: error.response, error };
  }
}
