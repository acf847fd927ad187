"""Services that call each other through topics of Kafka: a proxy before Kafka, a front end, authorization, a back end, MQTT."""
