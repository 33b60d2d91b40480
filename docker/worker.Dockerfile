# The whole service in one process, or a worker: torch and the embedded models are inside.
#
#     docker build -f docker/worker.Dockerfile -t cocoa-worker .
#     docker run --rm -p 127.0.0.1:8000:8000 cocoa-worker
#     docker build -f docker/worker.Dockerfile -t cocoa-worker:cuda --build-arg VARIANT=cuda .
#
# VARIANT=cpu takes torch's CPU build: pass the place that has it as PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS.
# A closed network passes its own PIP_INDEX_URL and PIP_CERT, too.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ARG PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CERT
# The same sources make the same files: nothing has a time of its own.
ARG SOURCE_DATE_EPOCH=315532800
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
COPY docker/requirements/tools.txt ./
RUN python3 -m venv /tools && /tools/bin/pip install --quiet --require-hashes -r tools.txt
# Dependencies change seldom, so they are a layer of their own; without pip, and without tests of others.
ARG VARIANT=cpu
COPY docker/requirements/worker-${VARIANT}.txt requirements.txt
RUN python3 -m venv --without-pip /opt/venv \
    && /tools/bin/pip --python /opt/venv/bin/python install --quiet --no-compile --only-binary :all: --require-hashes -r requirements.txt \
    && find /opt/venv/lib -type d -name tests -path '*/numpy/*' -prune -exec rm -r {} + \
    && chmod -R a+rX /opt/venv
COPY pyproject.toml README.md LICENSE cocoa_serve.py ./
COPY app app
COPY models models
COPY workers workers
# The user of the container is not the one who made the weights.
RUN /tools/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir wheels . \
    && /tools/bin/pip --python /opt/venv/bin/python install --quiet --no-compile --no-deps --no-index --target /opt/cocoa wheels/*.whl \
    && PYTHONPATH=/opt/cocoa /tools/bin/cyclonedx-py environment --output-reproducible --output-file /opt/cocoa/sbom.cdx.json /opt/venv/bin/python \
    && chmod -R a+rX /opt/cocoa \
    && mkdir -m 1777 /data
COPY docker/bytecode.py /tools/
RUN PYTHONPATH=/opt/cocoa PYTHONDONTWRITEBYTECODE='' PYTHONPYCACHEPREFIX=/opt/bytecode /opt/venv/bin/python /tools/bytecode.py \
    && find /opt/venv /opt/cocoa /opt/bytecode /data -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

FROM ${PYTHON_IMAGE}
ARG VERSION=0.4.0.dev0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="cocoa-serve worker" \
      org.opencontainers.image.description="Language model and similarity models behind cocoa-serve's gateway" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/venv /opt/venv
COPY docker/health.py /opt/health.py
COPY --from=build /opt/cocoa /opt/cocoa
COPY --from=build /opt/bytecode /opt/bytecode
COPY --from=build /data /data
ENV PATH=/opt/cocoa/bin:/opt/venv/bin:$PATH \
    COCOA_GIT_REVISION=${REVISION} \
    PYTHONPATH=/opt/cocoa \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/bytecode \
    MALLOC_ARENA_MAX=2 \
    HOME=/tmp \
    HF_HOME=/data \
    COCOA_HOST=0.0.0.0 \
    COCOA_PORT=8000
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 CMD ["python", "/opt/health.py"]
ENTRYPOINT ["cocoa"]
CMD ["serve"]
