# vLLM as it comes, and our plugin: exact entropies, and the probes of light mode.
#
#     docker build -f docker/vllm.Dockerfile -t cocoa-vllm .
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0

FROM ${VLLM_IMAGE}
ARG VERSION=0.4.0.dev0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vLLM with cocoa-serve's plugin" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY docker/vllm /opt/cocoa-vllm
# It has no dependencies, and brings no version of anything. setuptools is there, since vLLM needs it.
# A volume at /data begins as this folder, which the user below may write.
RUN python3 -m pip install --no-cache-dir --no-index --no-deps --no-build-isolation /opt/cocoa-vllm \
    && install -d -m 1777 /data
ENV HOME=/tmp HF_HOME=/data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
