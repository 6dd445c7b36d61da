"""Messages to peers under measurement: the evaluation of the SmartCom report again, and more."""
