# Stoker beside llama.cpp's own server, on the image that llama.cpp publishes for a kind of GPU:
#   docker build -f deploy/containers/llama.cpp.Dockerfile --build-arg VARIANT=server-cuda -t stoker:cuda .
#   docker build -f deploy/containers/llama.cpp.Dockerfile --build-arg VARIANT=server-rocm -t stoker:rocm .
# Name a build of llama.cpp once it works: server-cuda-bNNNN, or the digest.
ARG VARIANT=server-cuda
ARG BASE=ghcr.io/ggml-org/llama.cpp:${VARIANT}

FROM ${BASE} AS runtime
# The program is /app/llama-server. tini is process 1: it passes signals on, and reaps what engines leave behind.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libgomp1 python3 tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 10001 stoker \
 && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/stoker --no-create-home --shell /usr/sbin/nologin stoker \
 && install -d -o stoker -g stoker -m 700 /var/lib/stoker \
 && install -d /etc/stoker /models

FROM runtime AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/stoker
WORKDIR /source
COPY requirements-gateway.lock pyproject.toml README.md LICENSE ./
RUN /opt/stoker/bin/pip install --no-cache-dir --require-hashes -r requirements-gateway.lock
COPY docs docs
COPY share share
COPY src src
RUN /opt/stoker/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/stoker/bin/pip uninstall -y --quiet editables hatchling pathspec pluggy trove-classifiers pip

FROM runtime AS stoker
COPY --from=build /opt/stoker /opt/stoker
ENV PATH=/opt/stoker/bin:/app:/usr/local/bin:/usr/bin:/bin \
    XDG_STATE_HOME=/var/lib \
    STOKER_READY_URL=http://127.0.0.1:8000/readyz
USER 10001:10001
WORKDIR /etc/stoker
# Configuration in /etc/stoker, models in /models, both read-only; state in a volume, so that the root may be read-only.
VOLUME ["/var/lib/stoker"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["python3", "-c", "import os, urllib.request; urllib.request.urlopen(os.environ['STOKER_READY_URL'], timeout=4)"]
ENTRYPOINT ["tini", "--"]
CMD ["stoker", "up"]
