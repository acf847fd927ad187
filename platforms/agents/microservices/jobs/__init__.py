"""Services that hand on jobs in Redis: adapters in front, a dispatcher, a worker, and a store that speaks as MongoDB does."""
