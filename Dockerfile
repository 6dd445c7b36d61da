# The hub as a container. It runs as nobody in particular and keeps its data in /var/lib/hubbub.
#   docker build --tag hubbub .
# A tag can be moved to another image. To build on exactly one, name it by its digest:
#   docker pull python:3.11.13-slim-bookworm
#   docker build --tag hubbub . --build-arg PYTHON_IMAGE="$(docker image inspect \
#     --format '{{index .RepoDigests 0}}' python:3.11.13-slim-bookworm)"
# How to run it: docs/how-to/run-as-a-service.md

ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm
FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
RUN python -m venv /opt/hubbub
COPY requirements/build.txt requirements/run.txt requirements/tracing.txt requirements/
RUN /opt/hubbub/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/build.txt -r requirements/run.txt -r requirements/tracing.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/hubbub/bin/pip install --no-cache-dir --disable-pip-version-check --no-build-isolation --no-deps .

FROM ${PYTHON_IMAGE}
RUN groupadd --system --gid 10001 hubbub \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin hubbub \
    && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/hubbub
COPY --from=build /opt/hubbub /opt/hubbub
# Only this machine, which is the container, can reach the hub until HUBBUB_LISTENER_HOST says otherwise.
ENV PATH=/opt/hubbub/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HUBBUB_STORAGE_PATH=/var/lib/hubbub \
    HUBBUB_LISTENER_PORT=8000
USER 10001:10001
WORKDIR /var/lib/hubbub
VOLUME ["/var/lib/hubbub"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['HUBBUB_LISTENER_PORT'] + '/healthz', timeout=2)"]
ENTRYPOINT ["hubbub"]
CMD ["serve"]
