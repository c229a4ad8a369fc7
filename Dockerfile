# For those who have a container engine; `make image` writes the same image without one.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN make build VERSION="$VERSION" COMMIT="$COMMIT"

FROM scratch
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="heartwood" \
      org.opencontainers.image.description="Heartwood: a compacting log for Kubernetes that speaks the Kafka protocol" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /src/bin/heartwood /heartwood
USER 65532:65532
ENTRYPOINT ["/heartwood"]
