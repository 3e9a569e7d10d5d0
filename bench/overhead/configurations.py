"""The configuration file of each peer: one upstream, streams pass at once, no access log, nothing kept on disk.

Each text is filled by `gateways`: `{port}` is its own, `{upstream}` the engine's, `{folder}` its folder.
"""

from __future__ import annotations

NGINX = """\
worker_processes 1;
worker_rlimit_nofile {files};
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 256k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  upstream engine {{ server 127.0.0.1:{upstream}; keepalive 4096; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""

STOKER = """\
[front_door]
host = "127.0.0.1"
port = {port}
keys = [{{ name = "bench", value = "env:STOKER_BENCH_KEY", scope = "inference" }}]

[paths]
state = "{folder}/state"
logs = "{folder}/logs"

[[serve]]
name = "{alias}"
engine = "openai"
driver = "external"
base_url = "http://127.0.0.1:{upstream}/v1"
served_name = "{model}"
parallel = 4096
max_active = 4096
queue = 4096
"""

LITELLM = """\
model_list:
  - model_name: {alias}
    litellm_params:
      model: openai/{model}
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: none
general_settings:
  master_key: os.environ/BENCH_KEY
"""

LLAMA_SWAP = """\
logLevel: error
logToStdout: none
captureBuffer: 0
performance: {{ disabled: true }}
apiKeys: ["${{env.BENCH_KEY}}"]
models:
  {alias}:
    # llama-swap starts its engines itself: this one only keeps it content, the upstream is another process
    cmd: sleep 86400
    proxy: http://127.0.0.1:{upstream}
    checkEndpoint: /health
    useModelName: {model}
    concurrencyLimit: 4096
"""

OLLA = """\
server:
  host: 127.0.0.1
  port: {port}
  request_logging: false
  write_timeout: 0s
  request_limits: {{ max_body_size: 67108864, max_header_size: 1048576 }}
  rate_limits: {{ global_requests_per_minute: 0, per_ip_requests_per_minute: 0, health_requests_per_minute: 0 }}
proxy:
  engine: olla
  profile: streaming
  load_balancer: round-robin
discovery:
  type: static
  static:
    endpoints:
      - url: http://127.0.0.1:{upstream}
        name: engine
        type: openai-compatible
        model_url: /v1/models
        health_check_url: /health
        check_interval: 5s
        check_timeout: 2s
  model_discovery: {{ enabled: true }}
dashboard: {{ enabled: false }}
translators: {{ anthropic: {{ enabled: false }} }}
logging: {{ level: error, format: json, output: stdout }}
"""

ENVOY = """\
static_resources:
  listeners:
    - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: bench
                generate_request_id: false
                stream_idle_timeout: 600s
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes: [{{ match: {{ prefix: / }}, route: {{ cluster: engine, timeout: 0s }} }}]
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
    - name: engine
      type: STATIC
      circuit_breakers:
        thresholds: [{{ max_connections: 4096, max_pending_requests: 4096, max_requests: 4096 }}]
      load_assignment:
        cluster_name: engine
        endpoints:
          - lb_endpoints:
              - endpoint:
                  address: {{ socket_address: {{ address: 127.0.0.1, port_value: {upstream} }} }}
"""  # noqa: E501 - the name of a type

ENVOY_AI = """\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{ name: bench }}
spec: {{ controllerName: gateway.envoyproxy.io/gatewayclass-controller }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: bench, namespace: default }}
spec:
  gatewayClassName: bench
  listeners: [{{ name: http, protocol: HTTP, port: {port} }}]
  infrastructure:
    parametersRef: {{ group: gateway.envoyproxy.io, kind: EnvoyProxy, name: bench }}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {{ name: bench, namespace: default }}
spec:
  concurrency: 1
  logging: {{ level: {{ default: error }} }}
  telemetry: {{ accessLog: {{ disable: true }} }}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: ClientTrafficPolicy
metadata: {{ name: bench, namespace: default }}
spec:
  targetRefs: [{{ group: gateway.networking.k8s.io, kind: Gateway, name: bench }}]
  connection: {{ bufferLimit: 50Mi }}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {{ name: engine, namespace: default }}
spec:
  endpoints: [{{ ip: {{ address: 127.0.0.1, port: {upstream} }} }}]
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIServiceBackend
metadata: {{ name: engine, namespace: default }}
spec:
  schema: {{ name: OpenAI }}
  backendRef: {{ name: engine, kind: Backend, group: gateway.envoyproxy.io, namespace: default }}
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoute
metadata: {{ name: bench, namespace: default }}
spec:
  parentRefs: [{{ name: bench, kind: Gateway, group: gateway.networking.k8s.io }}]
  rules:
    - matches: [{{ headers: [{{ type: Exact, name: x-ai-eg-model, value: {alias} }}] }}]
      backendRefs: [{{ name: engine, namespace: default, modelNameOverride: {model} }}]
      timeouts: {{ request: 600s }}
"""
