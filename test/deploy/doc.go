// Package deploy proves what is in the directory deploy, the Dockerfile, and what docs/operations.md says of
// sizes: the command is built as the Dockerfile builds it, started as each of them starts it, and asked.
package deploy
