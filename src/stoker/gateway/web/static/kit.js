// What every part of the page is made with.
import { h, render, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { batch, computed, effect, signal, useComputed, useSignal } from "./vendor/signals.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export {
  Fragment, batch, computed, effect, render, signal, useComputed, useEffect, useLayoutEffect, useMemo, useRef,
  useSignal, useState,
};
