# The command in an image of its own: docker build --build-arg VERSION=v1.2.3 -t slidegate .
#
# There is nothing in it but the command and the certificates that TLS is checked with: no shell, no library. It
# writes no file, so it runs with --read-only.
FROM golang:1.26 AS build
ARG VERSION
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 GOWORK=off go build -C cmd/slidegate -trimpath -ldflags="-s -X github.com/slidegate/slidegate/cmd/slidegate/internal/console.Version=$VERSION" -o /slidegate .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /slidegate /slidegate
ENV SLIDEGATE_LISTEN=0.0.0.0:8080
EXPOSE 8080
USER 65534:65534
ENTRYPOINT ["/slidegate"]
