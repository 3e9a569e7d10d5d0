# All images: docker buildx bake -f deploy/containers/docker-bake.hcl [gateway|cpu|cuda|rocm]
variable "VERSION" { default = "local" }
variable "IMAGE" { default = "stoker" }

group "default" { targets = ["gateway", "cpu", "cuda", "rocm"] }

target "gateway" {
  dockerfile = "deploy/containers/Dockerfile"
  target     = "gateway"
  tags       = ["${IMAGE}:${VERSION}-gateway"]
}

target "cpu" {
  dockerfile = "deploy/containers/Dockerfile"
  target     = "cpu"
  tags       = ["${IMAGE}:${VERSION}-cpu"]
}

target "cuda" {
  dockerfile = "deploy/containers/llama.cpp.Dockerfile"
  args       = { VARIANT = "server-cuda" }
  tags       = ["${IMAGE}:${VERSION}-cuda"]
}

target "rocm" {
  dockerfile = "deploy/containers/llama.cpp.Dockerfile"
  args       = { VARIANT = "server-rocm" }
  tags       = ["${IMAGE}:${VERSION}-rocm"]
}
