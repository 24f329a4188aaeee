module github.com/slidegate/slidegate/echogate

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.4
	github.com/slidegate/slidegate v0.0.0
)

require golang.org/x/time v0.15.0 // indirect

replace github.com/slidegate/slidegate => ../
